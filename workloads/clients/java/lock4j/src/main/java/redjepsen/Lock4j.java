package redjepsen;

import com.baomidou.lock.LockInfo;
import com.baomidou.lock.LockTemplate;
import com.baomidou.lock.executor.RedisTemplateLockExecutor;
import com.baomidou.lock.spring.boot.autoconfigure.Lock4jProperties;
import java.time.Duration;
import java.util.List;
import org.springframework.data.redis.core.StringRedisTemplate;

/**
 * Lock4j by Spring's RedisTemplate on Lettuce; with `--renewed` without an expiry, so that a timer renews the lock:
 * https://github.com/baomidou/lock4j
 */
final class Lock4j {
    public static void main(String[] arguments) {
        boolean renewed = List.of(arguments).contains("--renewed");
        String name = "Lock4j " + Client.version("com.baomidou", "lock4j-core");
        Client.serve(renewed ? name + " (renewed)" : name, settings -> {
            Lock4jProperties properties = new Lock4jProperties();
            properties.setExpire(settings.ttl().toMillis());
            properties.setRetryInterval(settings.retryDelay().toMillis());
            StringRedisTemplate redis = new StringRedisTemplate(Lettuce.connections(settings));
            LockTemplate template = new LockTemplate();
            template.setProperties(properties);
            template.setExecutors(List.of(new RedisTemplateLockExecutor(redis, properties)));
            template.afterPropertiesSet();
            long expire = renewed ? -1 : settings.ttl().toMillis();
            return (String key, Duration within) -> {
                LockInfo lock = template.lock(key, expire, within.toMillis());
                return lock == null ? null : () -> {
                    if (!template.releaseLock(lock)) {
                        throw new IllegalStateException("it was not the holder's any more");
                    }
                };
            };
        });
    }
}

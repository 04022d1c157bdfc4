package redjepsen;

import com.baomidou.lock.LockInfo;
import com.baomidou.lock.LockTemplate;
import com.baomidou.lock.executor.RedisTemplateLockExecutor;
import com.baomidou.lock.spring.boot.autoconfigure.Lock4jProperties;
import java.util.List;
import java.util.Set;
import org.springframework.data.redis.core.StringRedisTemplate;

/**
 * Lock4j with Spring's RedisTemplate on Lettuce. With `--renewed` it has no expiry, so that a timer renews the lock:
 * https://github.com/baomidou/lock4j
 */
final class Lock4j {
    public static void main(String[] arguments) {
        String name = "Lock4j " + Client.version("com.baomidou", "lock4j-core");
        Client.serve(name, arguments, Set.of("renewed"), settings -> {
            Lock4jProperties properties = new Lock4jProperties();
            properties.setExpire(settings.ttl().toMillis());
            properties.setRetryInterval(settings.retryDelay().toMillis());
            StringRedisTemplate redis = new StringRedisTemplate(Lettuce.connections(settings));
            LockTemplate template = new LockTemplate();
            template.setProperties(properties);
            template.setExecutors(List.of(new RedisTemplateLockExecutor(redis, properties)));
            template.afterPropertiesSet();
            long expire = settings.flags().contains("renewed") ? -1 : settings.ttl().toMillis();
            return operation -> {
                LockInfo lock = template.lock(operation.key(), expire, operation.within().toMillis());
                return lock == null ? null : new Held(() -> {
                    if (!template.releaseLock(lock)) {
                        throw new IllegalStateException("it was not the holder's any more");
                    }
                });
            };
        });
    }
}

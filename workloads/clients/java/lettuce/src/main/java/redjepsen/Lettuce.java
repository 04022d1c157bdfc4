package redjepsen;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.SocketOptions;
import java.net.URI;
import java.time.Duration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** Spring's connections to the only node through Lettuce, as Spring Boot configures them. */
final class Lettuce {
    static LettuceConnectionFactory connections(Client.Settings settings) {
        if (settings.nodes().size() != 1) {
            throw new IllegalArgumentException("this library locks on one node: take --nodes 1");
        }
        URI node = settings.nodes().get(0);
        ClientOptions options = ClientOptions.builder()
                .replayFilter(command -> true) // a request is not sent again on the next connection
                .socketOptions(SocketOptions.builder().connectTimeout(settings.nodeTimeout()).build())
                .build();
        LettuceClientConfiguration limits = LettuceClientConfiguration.builder()
                .commandTimeout(settings.nodeTimeout())
                .shutdownTimeout(Duration.ZERO)
                .clientOptions(options)
                .build();
        RedisStandaloneConfiguration place = new RedisStandaloneConfiguration(node.getHost(), node.getPort());
        LettuceConnectionFactory factory = new LettuceConnectionFactory(place, limits);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }
}

package redjepsen;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/**
 * The resource that the lock protects: texts in a separate Redis (docs/resources.md). After an error the connection is
 * closed and never used again: a late reply would look like the reply to the next request.
 */
final class Register {
    /** Time limit of a request. Generous, because the resource is not under test. */
    private static final int LIMIT_MS = 2000;
    /** How long a holder waits until its write cannot arrive any more: longer than a fault lasts. */
    private static final Duration DOUBT_LIMIT = Duration.ofSeconds(60);
    private static final long AGAIN_MS = 20;

    /** The server replied with an error: nothing was done. */
    static final class Refused extends IOException {
        Refused(String text) {
            super(text);
        }
    }

    /** The value that the writer had read is no longer current. */
    static final class Conflict extends IOException {}

    /** The resource has seen a later holder's token. */
    static final class Fenced extends IOException {}

    // KEYS: the key. ARGV: whether the key had a text, this text, the new text.
    private static final String COMPARE_AND_SET = """
            local current = redis.call('get', KEYS[1])
            local matches
            if ARGV[1] == 'absent' then matches = current == false else matches = current == ARGV[2] end
            if not matches then return 0 end
            redis.call('set', KEYS[1], ARGV[3])
            return 1""";
    // KEYS: the key, the key of its highest token. ARGV: the writer's token, the new text.
    private static final String SET_WITH_TOKEN = """
            if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
            redis.call('set', KEYS[2], ARGV[1])
            redis.call('set', KEYS[1], ARGV[2])
            return 1""";
    // Returns the text after a plus, or a minus if the key has no text.
    private static final String GET_WITH_TOKEN = """
            if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
            redis.call('set', KEYS[2], ARGV[1])
            local text = redis.call('get', KEYS[1])
            return text and '+' .. text or '-'""";

    static final List<String> FENCINGS = List.of("none", "compare-and-set", "token", "token-reads");

    private final String fencing;
    private final InetSocketAddress address;
    private Socket socket;
    private InputStream replies;
    /** The server's id of the connection. */
    private String number;

    Register(URI url, String fencing) {
        this.fencing = fencing;
        address = new InetSocketAddress(url.getHost(), url.getPort() < 0 ? 6379 : url.getPort());
    }

    /** Connects if there is no connection. An exception means that nothing was sent. */
    void connect() throws IOException {
        if (socket != null) {
            return;
        }
        Socket fresh = new Socket();
        fresh.connect(address, LIMIT_MS);
        fresh.setTcpNoDelay(true);
        fresh.setSoTimeout(LIMIT_MS);
        socket = fresh;
        replies = new BufferedInputStream(fresh.getInputStream());
        number = ask("CLIENT", "ID");
    }

    /** Whether nothing that was sent on the broken connection can arrive any more: the server has closed it. */
    boolean cutOff() throws InterruptedException {
        String broken = number;
        long deadline = System.nanoTime() + DOUBT_LIMIT.toNanos();
        while (System.nanoTime() < deadline) {
            try {
                ask("CLIENT", "KILL", "ID", broken);
                return true;
            } catch (Refused gone) {
                return true;
            } catch (IOException unreachable) {
                Thread.sleep(AGAIN_MS);
            }
        }
        return false;
    }

    /** The text under a key; null if there is none. The token matters only if the resource checks tokens of reads. */
    String read(String key, Long token) throws IOException {
        if (!fencing.equals("token-reads") || token == null) {
            return ask("GET", key);
        }
        String reply = ask("EVAL", GET_WITH_TOKEN, "2", key, key + ":highest-token", token.toString());
        if (reply.equals("0")) {
            throw new Fenced();
        }
        return reply.startsWith("+") ? reply.substring(1) : null;
    }

    /** Writes a text in place of the text that was read. */
    void write(String key, String old, String text, Long token) throws IOException {
        if (fencing.equals("none")) {
            ask("SET", key, text);
        } else if (fencing.equals("compare-and-set")) {
            String known = old == null ? "absent" : "present";
            if (ask("EVAL", COMPARE_AND_SET, "1", key, known, old == null ? "" : old, text).equals("0")) {
                throw new Conflict();
            }
        } else if (token == null) {
            throw new Refused("the library gave no fencing token");
        } else if (ask("EVAL", SET_WITH_TOKEN, "2", key, key + ":highest-token", token.toString(), text).equals("0")) {
            throw new Fenced();
        }
    }

    /** Sends one request and returns its answer. Numbers are returned as texts; null is a key that does not exist. */
    String ask(String... words) throws IOException {
        connect();
        try {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            request.writeBytes(("*" + words.length + "\r\n").getBytes(StandardCharsets.UTF_8));
            for (String word : words) {
                byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
                request.writeBytes(("$" + bytes.length + "\r\n").getBytes(StandardCharsets.UTF_8));
                request.writeBytes(bytes);
                request.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
            }
            socket.getOutputStream().write(request.toByteArray());
            return reply();
        } catch (Refused error) {
            throw error;
        } catch (IOException error) {
            socket.close();
            socket = null;
            throw error;
        }
    }

    private String reply() throws IOException {
        String line = line();
        String rest = line.substring(1);
        return switch (line.charAt(0)) {
            case '-' -> throw new Refused(rest);
            case ':', '+' -> rest;
            case '$' -> {
                int size = Integer.parseInt(rest);
                if (size < 0) {
                    yield null;
                }
                byte[] text = replies.readNBytes(size + 2);
                if (text.length < size + 2) {
                    throw new EOFException("the server closed the connection");
                }
                yield new String(text, 0, size, StandardCharsets.UTF_8);
            }
            default -> throw new IOException("the server replied " + line);
        };
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = replies.read(); next != '\n'; next = replies.read()) {
            if (next < 0) {
                throw new EOFException("the server closed the connection");
            }
            line.write(next);
        }
        String text = line.toString(StandardCharsets.UTF_8).stripTrailing();
        if (text.isEmpty()) {
            throw new IOException("the server's reply is empty");
        }
        return text;
    }
}

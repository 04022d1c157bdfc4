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

/**
 * What the lock protects: texts in a Redis of their own (docs/resources.md). After an error the connection is closed and
 * never used again: a late reply would answer the next request.
 */
final class Register {
    /** For a request. Generous: the resource is not what is under test. */
    private static final int LIMIT_MS = 2000;
    /** A holder waits until its write cannot arrive any more: longer than a fault lasts. */
    private static final Duration DOUBT_LIMIT = Duration.ofSeconds(60);
    private static final long AGAIN_MS = 20;

    /** The server answered with an error: nothing was done. */
    static final class Refused extends IOException {
        Refused(String text) {
            super(text);
        }
    }

    private final InetSocketAddress address;
    private Socket socket;
    private InputStream replies;
    /** What the server calls the connection. */
    private String number;

    Register(URI url) {
        address = new InetSocketAddress(url.getHost(), url.getPort() < 0 ? 6379 : url.getPort());
    }

    /** Connects unless it is connected. An exception means that nothing was sent. */
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

    /** Whether nothing that was sent on the connection that broke can arrive any more: the server has closed it. */
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

    /** One request and its answer. Numbers come as texts; null is a key that does not exist. */
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

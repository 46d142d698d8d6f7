import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.function.Consumer;

/**
 * Says where a thread of Spark's is, and returns when the harness has answered: one line there, one byte back, over a
 * connection that no other thread uses meanwhile. One that was used is kept for the next thread, whoever that is.
 *
 * A connection that ends, and a harness that cannot be reached, let the thread go on as an answer does: Spark must not
 * fail of being watched.
 *
 * Every JVM of Spark compiles this when it starts, with the compiler that Spark has for its own code (Janino, which
 * knows no generics).
 */
public final class Announcer implements Consumer {
  private final ConcurrentLinkedDeque kept = new ConcurrentLinkedDeque();
  private final String host;
  private final int port;
  private final int connectMs;
  private final String head;

  public Announcer(String host, int port, int connectMs, String head) {
    this.host = host;
    this.port = port;
    this.connectMs = connectMs;
    this.head = head;
  }

  public void accept(Object where) {
    byte[] line = (this.head + where + '\n').getBytes(StandardCharsets.UTF_8);
    Socket socket = (Socket) this.kept.poll();
    // The other side may have closed it since it was used.
    if (socket == null || !answered(socket, line)) {
      socket = new Socket();
      if (!connected(socket) || !answered(socket, line)) {
        return;
      }
    }
    this.kept.offerFirst(socket);
  }

  private boolean connected(Socket socket) {
    try {
      socket.connect(new InetSocketAddress(this.host, this.port), this.connectMs);
      socket.setTcpNoDelay(true);
      return true;
    } catch (Exception problem) {
      return closed(socket);
    }
  }

  private static boolean answered(Socket socket, byte[] line) {
    try {
      socket.getOutputStream().write(line);
      return socket.getInputStream().read() >= 0 || closed(socket);
    } catch (Exception problem) {
      return closed(socket);
    }
  }

  /** False, for what has come to nothing. */
  private static boolean closed(Socket socket) {
    try {
      socket.close();
    } catch (IOException problem) {
      // It is of no use any more.
    }
    return false;
  }
}

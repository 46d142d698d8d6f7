package streamproof;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The replayable source of a query, for versions of Spark whose sources in Python cannot give one micro-batch at a time,
 * or that have none: as source.py has it, from the same numbered events.
 *
 * It is compiled once for each Spark, by the compiler that Spark has for its own code (Janino, which knows no generics).
 */
public final class EventSource implements TableProvider {
  static final StructType COLUMNS =
      new StructType()
          .add("key", DataTypes.StringType)
          .add("value", DataTypes.StringType)
          .add("seq", DataTypes.LongType)
          .add("time", DataTypes.LongType);

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return COLUMNS;
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new Events();
  }

  public static final class Events implements Table, SupportsRead {
    public String name() {
      return "streamproof-events";
    }

    public StructType schema() {
      return COLUMNS;
    }

    public Set capabilities() {
      return Collections.unmodifiableSet(
          EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ));
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new Input(options.get("events"), options.getLong("batches", 0L));
    }
  }

  /** All that there is, of which a stream takes one batch after the other and a batch job everything. */
  public static final class Input implements ScanBuilder, Scan, Batch {
    private final String events;
    private final long batches;

    public Input(String events, long batches) {
      this.events = events;
      this.batches = batches;
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return COLUMNS;
    }

    public Batch toBatch() {
      return this;
    }

    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new Stream(this.events, this.batches);
    }

    public InputPartition[] planInputPartitions() {
      return partitions(this.events, 0L, this.batches);
    }

    public PartitionReaderFactory createReaderFactory() {
      return new Readers();
    }
  }

  /** Gives every batch as often as it is asked for. What follows `begin` is where crash points are. */
  public static final class Stream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final String events;
    private final long batches;

    public Stream(String events, long batches) {
      this.events = events;
      this.batches = batches;
    }

    public Offset initialOffset() {
      return new Taken(0L);
    }

    public Offset deserializeOffset(String json) {
      return new Taken(Long.parseLong(json.replaceAll("[^0-9]", "")));
    }

    /** The input is whole from the start. */
    public void prepareForTriggerAvailableNow() {}

    public Offset latestOffset() {
      throw new UnsupportedOperationException("it is asked with a start and a limit");
    }

    public Offset latestOffset(Offset start, ReadLimit limit) {
      long next = ((Taken) start).batches;
      // Spark asks again and again when nothing more comes.
      if (next >= this.batches) {
        return start;
      }
      beginLatest(next);
      return new Taken(next + 1L);
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      beginPartitions(((Taken) end).batches - 1L);
      return partitions(this.events, ((Taken) start).batches, ((Taken) end).batches);
    }

    public PartitionReaderFactory createReaderFactory() {
      return new Readers();
    }

    public void commit(Offset end) {
      beginCommit(((Taken) end).batches - 1L);
    }

    public void stop() {}

    void beginLatest(long batch) {}

    void beginPartitions(long batch) {}

    void beginCommit(long batch) {}
  }

  /** How many batches there were so far. */
  public static final class Taken extends Offset {
    final long batches;

    public Taken(long batches) {
      this.batches = batches;
    }

    public String json() {
      return "{\"batches\": " + this.batches + "}";
    }
  }

  static InputPartition[] partitions(String events, long start, long end) {
    InputPartition[] found = new InputPartition[(int) (end - start)];
    for (int place = 0; place < found.length; place++) {
      found[place] = new OneBatch(events + "/" + (start + place));
    }
    return found;
  }

  public static final class OneBatch implements InputPartition {
    final String file;

    public OneBatch(String file) {
      this.file = file;
    }
  }

  public static final class Readers implements PartitionReaderFactory {
    public PartitionReader createReader(InputPartition partition) {
      try {
        return new Reader(((OneBatch) partition).file);
      } catch (IOException problem) {
        throw new IllegalStateException("the input cannot be read: " + problem, problem);
      }
    }
  }

  /** Of a file as source.py writes it: how many events, and of each key, value, seq and time. */
  public static final class Reader implements PartitionReader {
    private final DataInputStream file;
    private int left;
    private InternalRow row;

    public Reader(String path) throws IOException {
      this.file = new DataInputStream(new BufferedInputStream(new FileInputStream(path)));
      this.left = this.file.readInt();
    }

    public boolean next() throws IOException {
      if (this.left == 0) {
        return false;
      }
      this.left--;
      UTF8String key = text();
      UTF8String value = text();
      Long seq = Long.valueOf(this.file.readLong());
      Long time = Long.valueOf(this.file.readLong());
      this.row = new GenericInternalRow(new Object[] {key, value, seq, time});
      return true;
    }

    public Object get() {
      return this.row;
    }

    private UTF8String text() throws IOException {
      byte[] content = new byte[this.file.readInt()];
      this.file.readFully(content);
      return UTF8String.fromBytes(content);
    }

    public void close() throws IOException {
      this.file.close();
    }
  }
}

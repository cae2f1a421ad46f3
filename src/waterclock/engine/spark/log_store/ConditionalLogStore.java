package waterclock.storage;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.AWSServiceIOException;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * Writes a commit of Delta to S3 only if its version is free, which S3 itself decides (If-None-Match).
 *
 * <p>The log store that it extends looks whether the version is free and writes then: of two drivers that both found
 * it free, the later one replaces the commit of the other. S3A has the condition for files made by createFile alone,
 * not for create, which all log stores of Delta call; no setting changes that (Hadoop 3.5).
 */
public final class ConditionalLogStore extends S3SingleDriverLogStore {
    private static final String ONLY_IF_FREE = "fs.option.create.conditional.overwrite";
    private static final int CONFLICT = 409;
    private static final int MOST_TRIES = 5;
    private static final long PAUSE_MILLIS = 200;

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        if (overwrite) {
            super.write(path, actions, true, configuration);
            return;
        }
        FileSystem files = path.getFileSystem(configuration);
        byte[] content = contentOf(actions);
        for (int attempt = 1; ; attempt++) {
            try {
                putIfFree(files, path, content);
                return;
            } catch (RemoteFileChangedException taken) {
                // a request whose answer was lost is sent again, and then finds what it wrote itself
                if (!isContent(files, path, content)) {
                    throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(taken);
                }
                return;
            } catch (AWSServiceIOException refused) {
                // S3 answers so while another write of this name is under way, whichever way that ends
                if (refused.statusCode() != CONFLICT || attempt == MOST_TRIES) {
                    throw refused;
                }
                pause(attempt);
            }
        }
    }

    private static byte[] contentOf(Iterator<String> actions) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            content.writeBytes((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return content.toByteArray();
    }

    private static void putIfFree(FileSystem files, Path path, byte[] content) throws IOException {
        FSDataOutputStreamBuilder<?, ?> creation = files.createFile(path).overwrite(false);
        creation.must(ONLY_IF_FREE, true);
        FSDataOutputStream output = creation.build();
        try {
            output.write(content);
        } catch (IOException | RuntimeException failed) {
            output.abort(); // close would write what there is
            throw failed;
        }
        output.close();
    }

    private static boolean isContent(FileSystem files, Path path, byte[] content) throws IOException {
        try (InputStream input = files.open(path)) {
            return Arrays.equals(input.readAllBytes(), content);
        }
    }

    private static void pause(int attempt) throws IOException {
        try {
            Thread.sleep(attempt * PAUSE_MILLIS);
        } catch (InterruptedException interrupted) {
            throw (IOException) new InterruptedIOException().initCause(interrupted);
        }
    }
}

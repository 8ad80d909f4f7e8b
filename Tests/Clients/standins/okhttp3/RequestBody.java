package okhttp3;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import okio.BufferedSink;

/** OkHttp's class with the argument order of its release 4, which the generated client is written for; Debian has release 3. */
public abstract class RequestBody {
    public abstract MediaType contentType();

    public abstract void writeTo(BufferedSink sink) throws IOException;

    public long contentLength() throws IOException {
        return -1;
    }

    public static RequestBody create(String content, MediaType type) {
        return create(content.getBytes(StandardCharsets.UTF_8), type);
    }

    public static RequestBody create(File file, MediaType type) {
        try {
            return create(Files.readAllBytes(file.toPath()), type);
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    public static RequestBody create(byte[] content, MediaType type) {
        return new RequestBody() {
            @Override
            public MediaType contentType() {
                return type;
            }

            @Override
            public long contentLength() {
                return content.length;
            }

            @Override
            public void writeTo(BufferedSink sink) throws IOException {
                sink.write(content);
            }
        };
    }

    // The order of release 3, for the classes of Debian's that call it.
    public static RequestBody create(MediaType type, byte[] content) {
        return create(content, type);
    }

    public static RequestBody create(MediaType type, String content) {
        return create(content, type);
    }
}

import Foundation
import PushCore
import Synchronization
import Testing

@testable import PushStorePostgres

/// A private PostgreSQL server for the tests of one process, in a temporary folder, reached by a socket in it.
///
/// It ends with this process: a shell beside it waits for the end of its input, which this process holds open.
actor TestServer {
    static let shared = TestServer()

    private var starting: Task<Started, any Error>?
    private static let number = Atomic(0)

    private struct Started: Sendable {
        var folder: String
        /// Keeps the server alive.
        var input: FileHandle
    }

    /// Options of a database with a schema that nobody else uses.
    func options(_ schema: String? = nil) async throws -> PostgresOptions {
        let started = try await started()
        var options = try PostgresOptions(url: "postgres://chapar@/postgres?host=\(started.folder)")
        let number = Self.number.wrappingAdd(1, ordering: .relaxed).newValue
        options.schema = schema ?? "test_\(number)"
        return options
    }

    private func started() async throws -> Started {
        if let starting { return try await starting.value }
        let task = Task { try await Self.start() }
        starting = task
        return try await task.value
    }

    private static func start() async throws -> Started {
        let folder =
            FileManager.default.temporaryDirectory.path + "/chapar-pg-\(ProcessInfo.processInfo.processIdentifier)"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", script, "postgres", folder]
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        // The script says one line: "ready", or what went wrong.
        let line = await withCheckedContinuation { (continuation: CheckedContinuation<String, Never>) in
            Thread.detachNewThread {
                let bytes = output.fileHandleForReading.availableData
                continuation.resume(returning: String(decoding: bytes, as: UTF8.self))
            }
        }
        guard line.hasPrefix("ready") else { throw ServerTrouble(description: "PostgreSQL does not start: \(line)") }
        return Started(folder: folder, input: input.fileHandleForWriting)
    }

    struct ServerTrouble: Error, CustomStringConvertible {
        let description: String
    }

    /// Starts a server in the folder that it is given, as an unprivileged user, and ends it when nobody holds its input open any more.
    ///
    /// Without `fsync`: what the tests kill are servers and clients, never the machine.
    private static let script = #"""
        folder=$1
        as=()
        mkdir -p "$folder"
        if [ "$(id -u)" = 0 ]; then
            as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
            chown postgres "$folder"
        fi
        cd "$folder"
        bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | sort -V | tail -1)
        PATH=$bin:$PATH
        fail() { echo "$1: $(tail -3 "$folder/log")"; rm -rf "$folder"; exit 1; }
        "${as[@]}" initdb --pgdata="$folder/data" --username=chapar --auth=trust --encoding=UTF8 --locale=C --no-sync \
            > log 2>&1 || fail initdb
        "${as[@]}" postgres -D "$folder/data" -k "$folder" -c listen_addresses= -c fsync=off -c full_page_writes=off \
            -c max_connections=300 -c shared_buffers=64MB -c log_min_messages=error >> log 2>&1 < /dev/null &
        server=$!
        for _ in $(seq 300); do
            if pg_isready -q -h "$folder" -U chapar; then
                echo ready
                break
            fi
            kill -0 $server 2> /dev/null || fail postgres
            sleep 0.1
        done
        cat > /dev/null
        kill -INT $server
        wait $server
        rm -rf "$folder"
        """#
}

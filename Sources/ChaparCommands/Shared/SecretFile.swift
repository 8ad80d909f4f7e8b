import Foundation
import ChaparCore

/// Files that hold a secret: written for their owner alone, read with the last line break dropped.
enum SecretFile {
    /// The most bytes that are read.
    private static let limit = 64 << 10

    /// Writes a new file that only its owner can read; an existing file is never replaced.
    static func write(_ text: String, to path: String) throws(CommandFailure) {
        let descriptor = try make(path)
        defer { close(descriptor) }
        try write(text, to: descriptor, at: path)
    }

    /// Asks for a secret that is shown once, and writes it to a new file; an answer without a secret leaves no file.
    ///
    /// The file is made first and stays open. So a name that exists, or a folder that cannot be written, is reported
    /// before there is a secret that would be lost.
    static func write<Answer>(
        to path: String,
        of ask: () async throws -> Answer,
        secret: (Answer) -> String?
    ) async throws -> Answer {
        let descriptor = try make(path)
        defer { close(descriptor) }
        let answer: Answer
        do {
            answer = try await ask()
        } catch {
            unlink(path)
            throw error
        }
        if let secret = secret(answer) {
            try write(secret + "\n", to: descriptor, at: path)
        } else {
            unlink(path)
        }
        return answer
    }

    /// Makes a new, empty file that only its owner can read, and opens it for writing.
    private static func make(_ path: String) throws(CommandFailure) -> CInt {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .system("make \(path)", .usage) }
        return descriptor
    }

    /// Writes all of a text to an open file; a failure removes the file.
    private static func write(_ text: String, to descriptor: CInt, at path: String) throws(CommandFailure) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let failure = CommandFailure.system("write \(path)")
                unlink(path)  // Half a key is no key, and would block the name for the next attempt.
                throw failure
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads a secret.
    static func read(_ path: String) throws(CommandFailure) -> Secret {
        guard let handle = fopen(path, "rb") else { throw .system("read \(path)", .usage) }
        defer { fclose(handle) }
        var bytes = [UInt8](repeating: 0, count: limit)
        let count = fread(&bytes, 1, limit, handle)
        let text = String(decoding: bytes[..<count], as: UTF8.self).trimmingCharacters(in: .newlines)
        guard ferror(handle) == 0, !text.isEmpty else { throw CommandFailure("\(path) holds no key", .usage) }
        return Secret(text)
    }
}

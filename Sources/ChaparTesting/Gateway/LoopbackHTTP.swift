internal import Foundation
internal import ChaparCore

/// A minimal HTTP/1.1 client: one request to a server of this machine, on a connection of its own.
enum LoopbackHTTP {
    /// Sends a request and reads the answer to its end; runs on a thread of its own, for at most half a minute.
    static func exchange(
        port: UInt16,
        _ method: String,
        _ path: String,
        _ body: [UInt8]?
    ) async throws -> (status: Int, body: [UInt8]) {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Result { try blockingExchange(port: port, method, path, body) })
            }
        }
    }

    private static func blockingExchange(
        port: UInt16,
        _ method: String,
        _ path: String,
        _ body: [UInt8]?
    ) throws -> (status: Int, body: [UInt8]) {
        let descriptor = socket(AF_INET, CLibrary.streamSocket, 0)
        guard descriptor >= 0 else { throw failure("no socket") }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 30, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { throw failure("nothing listens on port \(port)") }
        let head = """
            \(method) \(path) HTTP/1.1\r
            host: 127.0.0.1:\(port)\r
            connection: close\r
            content-type: application/json\r
            content-length: \(body?.count ?? 0)\r
            \r

            """
        try write(Array(head.utf8) + (body ?? []), to: descriptor)
        return try parse(try read(from: descriptor))
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { CLibrary.transmit($0, on: descriptor) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw failure("the request could not be written") }
            rest = rest.dropFirst(count)
        }
    }

    private static func read(from descriptor: Int32) throws -> [UInt8] {
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("the answer did not come") }
            if count == 0 { return answer }
            answer += buffer[..<count]
        }
    }

    /// Returns the status and the body of an answer, with the parts of a chunked one joined.
    private static func parse(_ answer: [UInt8]) throws -> (status: Int, body: [UInt8]) {
        let mark = Array("\r\n\r\n".utf8)
        guard let end = answer.firstRange(of: mark) else { throw failure("the answer is no HTTP") }
        let head = String(decoding: answer[..<end.lowerBound], as: UTF8.self)
        guard let status = head.split(separator: " ").dropFirst().first.flatMap({ Int($0.prefix(3)) }) else {
            throw failure("the answer has no status")
        }
        var rest = answer[end.upperBound...]
        guard head.lowercased().contains("transfer-encoding: chunked") else { return (status, Array(rest)) }
        var body: [UInt8] = []
        while let line = rest.firstRange(of: Array("\r\n".utf8)) {
            let size = Int(String(decoding: rest[..<line.lowerBound], as: UTF8.self), radix: 16) ?? 0
            guard size > 0 else { break }
            body += rest[line.upperBound...].prefix(size)
            rest = rest[line.upperBound...].dropFirst(size + 2)
        }
        return (status, body)
    }

    private static func failure(_ sentence: String) -> ConformanceFailure { ConformanceFailure(sentence) }
}

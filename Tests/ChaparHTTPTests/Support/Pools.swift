import Logging
import NIOCore
import NIOPosix
import ChaparCore
import Synchronization

@testable import ChaparHTTP

/// Runs `body` with an HTTP/2 pool to 127.0.0.1 and shuts it down afterwards.
func withPool<Result>(
    port: Int,
    host: String = "127.0.0.1",
    tuning: HTTP2Tuning = .quick,
    _ change: (inout HTTPPoolConfiguration) -> Void = { _ in },
    _ body: (HTTP2Pool) async throws -> Result
) async throws -> Result {
    let pool = try makePool(port: port, host: host, tuning: tuning, change)
    do {
        let result = try await body(pool)
        await pool.shutdown(grace: .zero)
        return result
    } catch {
        await pool.shutdown(grace: .zero)
        throw error
    }
}

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

func makePool(
    port: Int,
    host: String = "127.0.0.1",
    tuning: HTTP2Tuning = .quick,
    _ change: (inout HTTPPoolConfiguration) -> Void = { _ in }
) throws -> HTTP2Pool {
    var configuration = HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: host, port: port), version: .http2)
    configuration.extraTrustPEM = try TestAuthority.shared.certificatePEM
    configuration.requestTimeout = .seconds(20)
    change(&configuration)
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    return try HTTP2Pool(configuration, loop: loop, tuning: tuning, logger: quiet)
}

extension HTTP2Tuning {
    /// The product's rules with a faster clock.
    static var quick: HTTP2Tuning {
        var tuning = HTTP2Tuning()
        tuning.tick = .milliseconds(5)
        tuning.growAfter = .milliseconds(50)
        return tuning
    }
}

/// Collects what a pool reports, and notices a call that is reported twice.
final class Replies: Sendable {
    private let contents = Mutex<[Int: HTTPReply]>([:])
    private let repeated = Mutex(0)

    func take(_ replies: [HTTPReply]) {
        contents.withLock { contents in
            for reply in replies where contents.updateValue(reply, forKey: reply.index) != nil {
                repeated.withLock { $0 += 1 }
            }
        }
    }

    var all: [Int: HTTPReply] { contents.withLock { $0 } }
    var doubled: Int { repeated.withLock { $0 } }
    var statuses: [Int] { all.values.compactMap { try? $0.result.get().status } }
    var failures: [HTTPFailure] {
        all.values.compactMap { reply in
            guard case .failure(let failure) = reply.result else { return nil }
            return failure
        }
    }
}

extension HTTPPool {
    /// Sends all calls and returns when each has its reply.
    func replies(to calls: [HTTPCall]) async -> Replies {
        let replies = Replies()
        await send(calls) { replies.take($0) }
        return replies
    }

    /// Sends one call and gives its answer's status, nil when there is none.
    func status(of call: HTTPCall) async -> Int? {
        do throws(HTTPFailure) {
            return try await send(call).status
        } catch {
            return nil
        }
    }

    /// Sends one call and gives the failure it must end with, nil when it succeeds.
    func failure(of call: HTTPCall) async -> HTTPFailure? {
        do throws(HTTPFailure) {
            _ = try await send(call)
            return nil
        } catch {
            return error
        }
    }
}

extension HTTPCallTemplate {
    static let post = HTTPCallTemplate(method: "POST", headers: [HTTPHeader("content-type", "application/json")])
    static let get = HTTPCallTemplate(method: "GET")
    static func post(deadline: Duration) -> HTTPCallTemplate { HTTPCallTemplate(method: "POST", deadline: deadline) }
}

extension [HTTPCall] {
    /// Many calls with paths of their own.
    static func posts(_ count: Int, bytes: Int = 200, template: HTTPCallTemplate = .post) -> [HTTPCall] {
        let body = [UInt8](repeating: UInt8(ascii: "x"), count: bytes)
        return (0..<count).map { index in
            HTTPCall(template, path: "/call/\(index)", headers: [HTTPHeader("x-id", "\(index)", .literal)], body: body)
        }
    }
}

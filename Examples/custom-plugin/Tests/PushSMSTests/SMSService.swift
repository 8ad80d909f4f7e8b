import Hummingbird
import Logging
import NIOCore
import PushCore
import PushHTTP
import PushSMS
import Synchronization

/// The made-up service on a free port: small enough to be read, strict enough to fail a backend that breaks its rules.
final class SMSService: Sendable {
    static let key = "a-key-of-the-account"
    private let taken = Mutex<[String: String]>([:])
    private let planned = Mutex<HTTPAnswer?>(nil)
    private let address = Mutex("")

    /// Where it is, with the path that its calls share.
    var url: String { address.withLock { $0 } }
    /// The numbers that it sent a message to.
    var numbers: [String] { taken.withLock { Array($0.values) } }

    /// Answers every request with this from now on; nil lets the rules decide.
    func plan(_ answer: HTTPAnswer?) { planned.withLock { $0 = answer } }

    /// Runs it for as long as `body` does.
    static func run(_ body: @escaping @Sendable (SMSService) async throws -> Void) async throws {
        let service = SMSService()
        let router = Router()
        router.post("v1/messages") { request, _ in
            let answer = service.answer(
                [UInt8](buffer: try await request.body.collect(upTo: 1 << 20)),
                key: request.headers[.authorization]
            )
            var response = Response(
                status: .init(code: answer.status),
                body: .init(byteBuffer: ByteBuffer(bytes: answer.body))
            )
            if let pause = answer.header("retry-after") { response.headers[.retryAfter] = pause }
            return response
        }
        let (ready, started) = AsyncStream.makeStream(of: Void.self)
        let server = Application(
            router: router,
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { channel in
                service.address.withLock { $0 = "http://127.0.0.1:\(channel.localAddress?.port ?? 0)/v1" }
                started.finish()
            },
            logger: Logger(label: "sms") { _ in SwiftLogNoOpLogHandler() }
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            for await _ in ready {}
            group.addTask { try await body(service) }
            try await group.next()
            group.cancelAll()
        }
    }

    private func answer(_ body: [UInt8], key: String?) -> HTTPAnswer {
        if let planned = planned.withLock({ $0 }) { return planned }
        guard key == "Bearer \(Self.key)" else { return HTTPAnswer(status: 401) }
        guard let messages = (try? JSONValue(parsing: body))?["messages"]?.arrayValue,
            (1...100).contains(messages.count)
        else { return HTTPAnswer(status: 400) }
        let results = messages.map { message -> JSONValue in
            let (id, number) = (message["id"]?.stringValue ?? "", message["number"]?.stringValue ?? "")
            let word =
                number.hasSuffix("404")
                ? "unknown_number" : number.hasSuffix("410") ? "opted_out" : number.hasPrefix("+") ? nil : "bad_number"
            if let word { return ["id": .string(id), "error": .string(word)] }
            taken.withLock { $0[id] = number }
            return ["id": .string(id), "ref": .string("ref-\(id)")]
        }
        return HTTPAnswer(status: 200, body: JSONValue.object(["results": .array(results)]).bytes)
    }
}

extension SMSService {
    /// Runs `body` with the service and a backend that sends through it.
    static func withBackend(
        key: String = key,
        _ body: @escaping @Sendable (SMSService, SMSBackend) async throws -> Void
    ) async throws {
        try await run { service in
            let transport = NIOTransport(logger: Logger(label: "sms") { _ in SwiftLogNoOpLogHandler() })
            guard let url = HTTPBaseURL(url: service.url) else { return }
            let backend = try SMSBackend(url: url, key: Secret(key), common: CommonBackendOptions(), http: transport)
            let result: Result<Void, any Error>
            do { result = .success(try await body(service, backend)) } catch { result = .failure(error) }
            await backend.shutdown(grace: .zero)
            await transport.shutdown(grace: .milliseconds(100))
            try result.get()
        }
    }
}

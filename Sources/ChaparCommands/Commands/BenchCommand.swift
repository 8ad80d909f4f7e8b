import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway
import ChaparSandbox

/// `chapar bench`: measures how fast a gateway accepts and delivers, through its HTTP API.
struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Measure a gateway: messages accepted and delivered per second, latencies.",
        discussion: """
            Without --url it measures a gateway and simulators within this process, which share the machine with the
            load. With --url it sends real messages through a running gateway: point it at one that uses the sandbox.
            $CHAPAR_URL is not used here, so that no gateway is loaded by mistake.
            """
    )

    @Option(help: "How many messages to send.")
    var messages = 20_000

    @Option(help: "How many messages a request carries, 1 to 1000.")
    var batch = 100

    @Option(help: "How many requests are under way at a time, 1 to 64.")
    var concurrency = 8

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (1...10_000_000).contains(messages), (1...1000).contains(batch), (1...64).contains(concurrency) else {
            throw ValidationError("--messages is 1 to 10000000, --batch 1 to 1000, --concurrency 1 to 64.")
        }
    }

    func run() async throws {
        #if DEBUG
            Shell.complain("This is a debug build: the figures say little. Build it with: make release")
        #endif
        if let client = try gateway.namedClient() {
            try await client.checkReachable()
            let result = try await measure(client)
            await client.close()
            return try show(result, where: "gateway")
        }
        guard GatewayProgram.current.knows("apns") else {
            throw CommandFailure(
                "within the process it sends through apns, which this program lacks; give --url",
                .usage
            )
        }
        let folder = try TemporaryFolder(prefix: "chapar-bench")
        defer { folder.remove() }
        let result = try await Sandbox.run { sandbox in
            let files = try GatewayProgram.current.write(sandbox, to: folder.url, gatewayPort: 0)
            var log = GatewayConfiguration.Log()
            log.level = "error"
            let quiet = log
            return try await LocalGateway.run(
                path: files.configurationFile.path,
                log: LogOutput.Settings(quiet),
                adjust: { $0.log = quiet },
                { port in
                    guard let endpoint = HTTPEndpoint(url: "http://127.0.0.1:\(port)") else {
                        throw CommandFailure("no port")
                    }
                    let client = try GatewayClient(endpoint, key: nil, connections: concurrency)
                    let result = try await measure(client)
                    await client.close()
                    return result
                }
            )
        }
        try show(result, where: "in process, APNs simulator")
    }

    /// The counts and times of a run.
    private struct Result: Sendable {
        var accepted = 0
        var refused = 0
        var latencies: [Duration] = []
        /// The notifications whose outcome is looked up afterwards, at most ``BenchCommand/sample``, spread over the
        /// run.
        var sampled: [String] = []
        /// The number of these that the platform accepted, and of those that ended in another way.
        var (taken, failed) = (0, 0)
        var accepting = Duration.zero
        var delivering = Duration.zero
    }

    private func measure(_ client: GatewayClient) async throws -> Result {
        let start = ContinuousClock.now
        var result = try await accept(client)
        result.accepting = ContinuousClock.now - start
        while try await waiting(client) > 0 { try await Task.sleep(for: .milliseconds(5)) }
        result.delivering = ContinuousClock.now - start
        try await look(at: &result, client)
        return result
    }

    /// The number of notifications whose outcome is looked up.
    private static let sample = 1000

    /// Counts how the sampled notifications ended: one that is no longer waiting may have failed or expired.
    private func look(at result: inout Result, _ client: GatewayClient) async throws {
        for id in result.sampled {
            let answer: GatewayClient.Answer
            do throws(HTTPFailure) {
                answer = try await client.get("/v1/notifications/\(id)")
            } catch {
                throw client.unreachable(error)
            }
            let counts = answer.json["counts"]?.objectValue ?? JSONObject()
            let good = ["accepted_by_platform", "delivered", "opened"]
            if !counts.isEmpty, counts.allSatisfy({ good.contains($0.name) || $0.value.integerValue == 0 }) {
                result.taken += 1
            } else {
                result.failed += 1
            }
        }
    }

    /// Posts all messages, with at most `concurrency` requests under way at a time.
    private func accept(_ client: GatewayClient) async throws -> Result {
        let batches = (messages + batch - 1) / batch
        let stride = max(1, batches / Self.sample)
        return try await withThrowingTaskGroup(of: (Int, Int, Duration, String?).self) { group in
            var next = 0
            var result = Result()
            while next < min(concurrency, batches) {
                let number = next
                group.addTask { try await post(number, client) }
                next += 1
            }
            while let (accepted, refused, latency, id) = try await group.next() {
                result.accepted = result.accepted.adding(clamping: accepted)
                result.refused = result.refused.adding(clamping: refused)
                if let id, result.latencies.count % stride == 0, result.sampled.count < Self.sample {
                    result.sampled.append(id)
                }
                result.latencies.append(latency)
                guard next < batches else { continue }
                let number = next
                group.addTask { try await post(number, client) }
                next += 1
            }
            return result
        }
    }

    /// Posts a request; returns the numbers of its messages that were accepted and refused, the time it took, and the
    /// id of the first message that has one.
    private func post(_ number: Int, _ client: GatewayClient) async throws -> (Int, Int, Duration, String?) {
        let begin = number * batch
        let count = min(batch, messages - begin)
        let list = (begin..<begin + count).map(Self.message)
        let path = batch == 1 ? "/v1/notifications" : "/v1/notifications/batch"
        let body = batch == 1 ? list[0].bytes : JSONValue.object(["notifications": .array(list)]).bytes
        let start = ContinuousClock.now
        let answer = try await client.postPatiently(path, body)
        let latency = ContinuousClock.now - start
        guard answer.status != 401, answer.status != 403 else {
            throw CommandFailure("the gateway refused the key: \(answer.problem)", .usage)
        }
        let taken = batch == 1 ? 1 : Int(count: answer.json["accepted"]?.integerValue ?? 0)
        let accepted = answer.status != 202 ? 0 : min(taken, count)
        let answered = batch == 1 ? [answer.json] : answer.json["notifications"]?.arrayValue ?? []
        return (accepted, count - accepted, latency, answered.lazy.compactMap { $0["id"]?.stringValue }.first)
    }

    private static func message(_ number: Int) -> JSONValue {
        let digits = String(number, radix: 16)
        let token = "ab" + String(repeating: "0", count: 62 - digits.count) + digits
        return [
            "to": ["tokens": [["token": .string(token), "service": "ios-apns"]]],
            "content": ["title": "Benchmark", "body": .string("message \(number)"), "data": ["n": .string(digits)]],
        ]
    }

    /// Returns the number of messages that have not ended yet.
    private func waiting(_ client: GatewayClient) async throws -> Int64 {
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await client.get("/v1/backends")
        } catch {
            throw client.unreachable(error)
        }
        guard answer.status == 200 else {
            throw CommandFailure("the gateway does not show its backends: \(answer.problem)", .usage)
        }
        return (answer.json["backends"]?.arrayValue ?? [])
            .reduce(0) {
                $0.adding(clamping: $1.worker?["waiting"]?.integerValue ?? 0)
                    .adding(clamping: $1.worker?["claimed"]?.integerValue ?? 0)
            }
    }

    /// Prints the figures; throws a failure where messages were refused, none could be looked up, or not all that were
    /// looked up were accepted by the platform.
    private func show(_ result: Result, where position: String) throws {
        let sorted = result.latencies.sorted()
        func percentile(_ share: Double) -> Double {
            guard !sorted.isEmpty else { return 0 }
            return sorted[min(sorted.count - 1, Int(clamping: Double(sorted.count) * share))].inSeconds * 1000
        }
        let accepted = Double(result.accepted)
        let rates = (accepted / result.accepting.inSeconds, accepted / result.delivering.inSeconds)
        if form.isJSON {
            Shell.print([
                "accepted": .integer(Int64(result.accepted)), "refused": .integer(Int64(result.refused)),
                "accepted_per_second": .double(rates.0.rounded()), "delivered_per_second": .double(rates.1.rounded()),
                "request_p50_ms": .double(percentile(0.5)), "request_p99_ms": .double(percentile(0.99)),
                "batch": .integer(Int64(batch)), "concurrency": .integer(Int64(concurrency)),
                "where": .string(position), "processors": .integer(Int64(ProcessInfo.processInfo.processorCount)),
                "version": .string(GatewayProgram.current.version), "debug": .bool(Self.isDebug),
                "looked_at": .integer(Int64(result.sampled.count)), "taken": .integer(Int64(result.taken)),
            ])
            return try judge(result)
        }
        func text(_ number: Double) -> String { String(format: "%.1f", number) }
        Shell.print("\(position), \(ProcessInfo.processInfo.processorCount) processors, durable before each answer")
        Shell.print("accepted   \(result.accepted), refused \(result.refused)")
        Shell.print(
            "accepting  \(Int(clamping: rates.0)) messages/s, \(batch) a request, \(concurrency) requests at a time"
        )
        Shell.print("a request  p50 \(text(percentile(0.5))) ms, p99 \(text(percentile(0.99))) ms")
        Shell.print(
            "ending     \(Int(clamping: rates.1)) messages/s from the first post to the last answer of the platform, "
                + "\(result.taken) of \(result.sampled.count) that were looked at taken by it"
        )
        try judge(result)
    }

    private func judge(_ result: Result) throws {
        guard result.failed == 0 else {
            throw CommandFailure(
                "of \(result.sampled.count) messages that were looked at \(result.failed) were not taken by the platform: "
                    + "these are no figures of deliveries",
                result.taken == 0 ? .failure : .partial
            )
        }
        guard result.accepted == 0 || !result.sampled.isEmpty else {
            throw CommandFailure(
                "the gateway's answers name no message, so none could be looked at: these are no figures of deliveries"
            )
        }
        if result.refused > 0 {
            throw CommandFailure(
                "the gateway refused \(result.refused) messages",
                result.accepted == 0 ? .failure : .partial
            )
        }
    }

    private static var isDebug: Bool {
        #if DEBUG
            true
        #else
            false
        #endif
    }
}

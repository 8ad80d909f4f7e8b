import ChaparCore
import ChaparTesting
import Synchronization
import Testing

/// The kit is worth something only if a strategy that breaks a promise does not pass.
@Suite("The conformance kit of strategies", .timeLimit(.minutes(1)))
struct StrategyKitTests {
    enum Fault: String, CaseIterable {
        case namesInUpperCase, changesAlways, showsItsKey, givesAnywhere, makesMany, keepsTheRefused, refreshesForOld
        case refreshesTwice, givesUpSilently, neverEnds
    }

    /// Which check each fault must fail, by how the promise begins.
    static let faults: [(Fault, String)] = [
        (.namesInUpperCase, "gives a credential that HTTP"), (.changesAlways, "keeps its credential"),
        (.showsItsKey, "shows no secret"), (.givesAnywhere, "gives its credential to no other"),
        (.makesMany, "makes one credential"), (.keepsTheRefused, "replaces a refused"),
        (.refreshesForOld, "refreshes once for a thousand"), (.refreshesForOld, "does not refresh for a credential"),
        (.refreshesTwice, "has a refused call sent once more"), (.givesUpSilently, "gives up in words"),
        (.neverEnds, "ends twice"),
    ]

    /// A strategy that keeps every promise, but for one fault.
    private final class ModelStrategy: AuthStrategy {
        static let address = HTTPEndpoint(host: "push.example")
        private let fault: Fault?
        private let state = Mutex((generation: UInt64(0), made: 0))

        init(_ fault: Fault?) { self.fault = fault }

        var made: Int { state.withLock { $0.made } }

        func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
            guard destination == Self.address || fault == .givesAnywhere else {
                throw PushError(.unsupported, "the key is not for \(destination)")
            }
            let generation = state.withLock { state in
                if state.generation == 0 || fault == .changesAlways {
                    state.generation += 1
                    state.made += 1
                }
                if fault == .makesMany { state.made += 1 }
                return state.generation
            }
            let key = "key-\(generation)"
            let name =
                switch fault {
                case .namesInUpperCase: "X-Key"
                case .showsItsKey: "x-\(key)"
                default: "x-key"
                }
            return AuthCredential(headers: [.init(name, Secret(key))], generation: generation)
        }

        func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
            guard status == 401 else { return .giveUp(fault == .givesUpSilently ? "" : "Check the key.") }
            state.withLock { state in
                guard credential.generation == state.generation || fault == .refreshesForOld else { return }
                guard fault != .keepsTheRefused else { return }
                state.generation += 1
                state.made += fault == .refreshesTwice ? 2 : 1
            }
            return .retry
        }

        func shutdown() async { if fault == .neverEnds { await ModelBackend.hang() } }
    }

    private static func subject(_ fault: Fault?) -> AuthStrategyConformance.Subject {
        let strategy = ModelStrategy(fault)
        var subject = AuthStrategyConformance.Subject(
            strategy: strategy,
            destination: ModelStrategy.address,
            refreshes: { strategy.made },
            curable: (401, nil),
            hopeless: (403, nil)
        )
        if fault == .neverEnds { subject.waitLimit = .milliseconds(200) }
        return subject
    }

    @Test("A strategy that keeps every promise passes", arguments: AuthStrategyConformance.checks)
    func good(check: AuthStrategyConformance.Check) async throws {
        try await check.run(Self.subject(nil))
    }

    @Test("A broken promise fails its check, which names promise, finding and source", arguments: faults)
    func broken(fault: Fault, promise: String) async throws {
        let check = try #require(AuthStrategyConformance.checks.first { $0.name.hasPrefix(promise) })
        let failure = await #expect(throws: ConformanceFailure.self) { try await check.run(Self.subject(fault)) }
        let words = failure?.description ?? ""
        #expect(words.contains(check.name) && words.contains("seen: ") && words.contains("source: \(check.source)"))
        #expect(!check.why.isEmpty && words.contains("why it matters: \(check.why)"))
    }

    @Test("There is a broken strategy for each check, and a check for each fault")
    func everyCheck() {
        for check in AuthStrategyConformance.checks {
            #expect(Self.faults.contains { check.name.hasPrefix($0.1) }, "\(check)")
        }
        #expect(Set(Self.faults.map(\.0)) == Set(Fault.allCases))
    }
}

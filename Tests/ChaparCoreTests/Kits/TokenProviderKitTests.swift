import ChaparCore
import ChaparTesting
import Synchronization
import Testing

/// The kit is worth something only if a provider that breaks a promise does not pass.
@Suite("The conformance kit of token providers", .timeLimit(.minutes(1)))
struct TokenProviderKitTests {
    enum Fault: String, CaseIterable {
        case isOfNoService, givesUnfinished, changesAlways, keepsBlanks, takesAnyText, repeatsTexts, inventsTokens
        case blamesCredentials, waitsForEver, deletesApples, keepsDeleted
    }

    /// Which check each fault must fail, by how the promise begins.
    static let faults: [(Fault, String)] = [
        (.isOfNoService, "is of a service"), (.givesUnfinished, "gives tokens of its own service"),
        (.changesAlways, "gives the same token"), (.keepsBlanks, "brings a token to its final form"),
        (.takesAnyText, "refuses texts"), (.repeatsTexts, "refuses texts"), (.inventsTokens, "says nil"),
        (.blamesCredentials, "says that the source failed"), (.waitsForEver, "gives up on a source"),
        (.waitsForEver, "ends when its caller is cancelled"), (.deletesApples, "claims to delete"),
        (.keepsDeleted, "deletes a token"),
    ]

    /// The behaviour of a provider's source.
    enum Source { case good, empty, failing, hanging }

    /// A provider that keeps every promise, but for one fault.
    private final class ModelProvider: TokenDeleting {
        private let fault: Fault?
        private let source: Source
        private let number = Mutex(1)

        init(_ fault: Fault?, _ source: Source) {
            self.fault = fault
            self.source = source
        }

        var service: TokenService {
            switch fault {
            case .isOfNoService: TokenService(rawValue: "No-Service")
            case .deletesApples: .iOSAPNs
            default: .androidFirebase
            }
        }

        func token() async throws(PushError) -> DeviceToken? {
            switch source {
            case .good:
                if fault == .changesAlways { number.withLock { $0 += 1 } }
                let ending = fault == .givesUnfinished ? " " : ""
                return DeviceToken("token-\(number.withLock { $0 })\(ending)", service: service)
            case .empty: return fault == .inventsTokens ? DeviceToken("token-0", service: service) : nil
            case .failing:
                throw PushError(fault == .blamesCredentials ? .credentialsRefused : .unavailable, "the source failed")
            case .hanging:
                if fault == .waitsForEver { await ModelBackend.hang() }
                throw PushError(.unavailable, "the source did not answer")
            }
        }

        func validate(_ text: String) throws(InvalidToken) -> DeviceToken {
            let plain = fault == .keepsBlanks ? text : text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            if plain.isEmpty || plain.contains("!"), fault != .takesAnyText {
                throw InvalidToken(service, fault == .repeatsTexts ? "\"\(text)\" is none" : "it has other characters")
            }
            return DeviceToken(plain, service: service)
        }

        func delete(_ token: DeviceToken) async throws(PushError) {
            if fault != .keepsDeleted { number.withLock { $0 += 1 } }
        }
    }

    private static func subject(_ fault: Fault?) -> TokenProviderConformance.Subject {
        var subject = TokenProviderConformance.Subject(
            provider: ModelProvider(fault, .good),
            empty: ModelProvider(fault, .empty),
            hanging: ModelProvider(fault, .hanging),
            failing: ModelProvider(fault, .failing),
            renewing: ModelProvider(fault, .good),
            invalidTexts: ["not!one"]
        )
        if fault == .waitsForEver { subject.waitLimit = .milliseconds(200) }
        return subject
    }

    @Test("A provider that keeps every promise passes", arguments: TokenProviderConformance.checks)
    func good(check: TokenProviderConformance.Check) async throws {
        try await check.run(Self.subject(nil))
    }

    @Test("A broken promise fails its check, which names promise, finding and source", arguments: faults)
    func broken(fault: Fault, promise: String) async throws {
        let check = try #require(TokenProviderConformance.checks.first { $0.name.hasPrefix(promise) })
        let failure = await #expect(throws: ConformanceFailure.self) { try await check.run(Self.subject(fault)) }
        let words = failure?.description ?? ""
        #expect(words.contains(check.name) && words.contains("seen: ") && words.contains("source: \(check.source)"))
        #expect(!check.why.isEmpty && words.contains("why it matters: \(check.why)"))
    }

    @Test("There is a broken provider for each check, and a check for each fault")
    func everyCheck() {
        for check in TokenProviderConformance.checks {
            #expect(Self.faults.contains { check.name.hasPrefix($0.1) }, "\(check)")
        }
        #expect(Set(Self.faults.map(\.0)) == Set(Fault.allCases))
    }
}

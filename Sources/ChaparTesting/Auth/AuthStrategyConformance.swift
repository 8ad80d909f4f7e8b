public import ChaparCore

/// The promises of every `AuthStrategy`, as checks that a plugin's tests run.
///
/// The strategy, its destination and a count of refreshes are enough to begin.
///
/// ```swift
/// @Test("It keeps the promises of a strategy", arguments: AuthStrategyConformance.checks)
/// func conformance(check: AuthStrategyConformance.Check) async throws {
///     let issuer = Issuer()  // Counts the credentials that it makes.
///     let subject = AuthStrategyConformance.Subject(
///         strategy: PagerAuth(issuer), destination: HTTPEndpoint(host: "pager.example"), refreshes: { issuer.count },
///         curable: (401, nil), hopeless: (403, nil)
///     )
///     if let skip = try await check.run(subject) { try Test.cancel("\(skip)") }
/// }
/// ```
public enum AuthStrategyConformance {
    /// A strategy, with the facts that the checks need about it.
    public struct Subject: Sendable {
        /// The strategy, unused.
        public var strategy: any AuthStrategy
        /// The endpoint for which credentials are requested.
        public var destination: HTTPEndpoint
        /// Returns the number of credentials that have been fetched or made so far.
        public var refreshes: @Sendable () async -> Int
        /// The refusal that a fresh credential fixes; nil when there is none, as with an API key.
        public var curable: (status: Int, reason: String?)?
        /// A refusal that no credential fixes.
        public var hopeless: (status: Int, reason: String?)
        /// Waits until a refused credential may be replaced, where a platform limits how often that happens.
        public var age: @Sendable () async -> Void
        /// The time on a slow machine after which a call counts as never ending.
        public var waitLimit = Duration.seconds(20)

        /// Makes a subject.
        public init(
            strategy: any AuthStrategy,
            destination: HTTPEndpoint,
            refreshes: @escaping @Sendable () async -> Int,
            curable: (status: Int, reason: String?)? = nil,
            hopeless: (status: Int, reason: String?) = (403, nil),
            age: @escaping @Sendable () async -> Void = {}
        ) {
            self.strategy = strategy
            self.destination = destination
            self.refreshes = refreshes
            self.curable = curable
            self.hopeless = hopeless
            self.age = age
        }

        func credential() async throws -> AuthCredential {
            try await strategy.credential(for: destination)
        }
    }

    /// A check of this kit.
    public typealias Check = ConformanceCheck<Subject>

    /// All checks.
    public static let checks: [Check] = [
        Check(
            "gives a credential that HTTP can carry",
            source: asking,
            why: "A field that HTTP forbids fails every request.",
            needs: [],
            run: givesCredential
        ),
        Check(
            "keeps its credential",
            source: asking,
            why: "Platforms limit how often credentials are made.",
            needs: [],
            run: keepsCredential
        ),
        Check(
            "shows no secret",
            source: "AuthCredential.Header.value",
            why: "What is printed stands in logs.",
            needs: [],
            run: showsNoSecret
        ),
        Check(
            "gives its credential to no other address",
            source: asking,
            why: "A redirect, or a wrong base_url, would give the credential to another server.",
            needs: [],
            run: keepsToItsAddress
        ),
        Check(
            "makes one credential for many who ask at once",
            source: protocolText,
            why: "At the start every worker asks at the same moment.",
            needs: [],
            run: startsOnce
        ),
        Check(
            "replaces a refused credential",
            source: refusing,
            why: "Credentials end before their time; without a replacement the backend parks.",
            needs: [.curable],
            run: replaces
        ),
        Check(
            "refreshes once for a thousand refusals at once",
            source: protocolText,
            why: "A refresh for each refusal is a storm that platforms block, and a rotating token loses.",
            needs: [.curable],
            run: refreshesOnce
        ),
        Check(
            "does not refresh for a credential that has been replaced",
            source: refusing,
            why: "Late refusals of the old credential would throw the new one away.",
            needs: [.curable],
            run: ignoresOldRefusals
        ),
        Check(
            "has a refused call sent once more at the most",
            source: "AuthorizedPool",
            why: "A credential that is never taken would be sent for ever.",
            needs: [],
            run: doesNotLoop
        ),
        Check(
            "gives up in words when no credential helps",
            source: "AuthDecision.giveUp(_:)",
            why: "An operator has to act, and reads these words.",
            needs: [],
            run: givesUp
        ),
        Check(
            "ends twice without harm",
            source: "AuthStrategy.shutdown()",
            why: "A reload may end what a shutdown ends as well.",
            needs: [],
            run: ends
        ),
    ]

    private static let asking = "AuthStrategy.credential(for:)"
    private static let refusing = "AuthStrategy.refused(_:status:reason:)"
    private static let protocolText = "AuthStrategy: refresh is single-flight"

    private static func givesCredential(_ subject: Subject) async throws {
        let credential = try await subject.credential()
        try expect(!credential.headers.isEmpty, "the credential has no header field")
        for header in credential.httpHeaders {
            try expect(header.name == header.name.lowercased(), "the field \(header.name) is not lower case")
            let isClean = header.value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
            try expect(isClean && !header.value.isEmpty, "the field \(header.name) has a value that HTTP forbids")
        }
    }

    private static func keepsCredential(_ subject: Subject) async throws {
        let first = try await subject.credential()
        let second = try await subject.credential()
        try expect(first == second, "two requests in a row get different credentials")
    }

    private static func showsNoSecret(_ subject: Subject) async throws {
        let credential = try await subject.credential()
        let text = "\(credential)" + String(reflecting: credential)
        for header in credential.headers {
            try expect(!text.contains(header.value.reveal()), "printing a credential shows its secret")
        }
    }

    private static func keepsToItsAddress(_ subject: Subject) async throws {
        let own = subject.destination
        let secrets = try await subject.credential().headers.map { $0.value.reveal() }
        let strangers = [
            HTTPEndpoint(host: "elsewhere.example"), HTTPEndpoint(host: "\(own.host).elsewhere.example"),
            HTTPEndpoint(scheme: own.scheme, host: own.host, port: own.port == 8444 ? 8445 : 8444),
            HTTPEndpoint(scheme: own.scheme == .https ? .http : .https, host: own.host, port: own.port),
        ]
        for stranger in strangers {
            // An error is one way to give nothing.
            guard let given = try? await subject.strategy.credential(for: stranger) else { continue }
            let isOut = given.headers.contains { secrets.contains($0.value.reveal()) }
            try expect(!isOut && given.headers.isEmpty, "it gives its credential to \(stranger)")
        }
    }

    private static func startsOnce(_ subject: Subject) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for _ in 0..<100 { tasks.addTask { _ = try await subject.credential() } }
            try await tasks.waitForAll()
        }
        let count = await subject.refreshes()
        try expect(count <= 1, "a hundred first requests made \(count) credentials")
    }

    private static func replaces(_ subject: Subject) async throws {
        guard let curable = subject.curable else { return }
        let old = try await subject.credential()
        await subject.age()
        let decision = await subject.strategy.refused(old, status: curable.status, reason: curable.reason)
        try expect(decision == .retry, "a refusal that a fresh credential mends leads to \(decision)")
        let new = try await subject.credential()
        try expect(new.generation > old.generation, "the credential after a refusal is of the same generation")
        try expect(new.headers != old.headers, "the credential after a refusal is the same")
    }

    private static func refreshesOnce(_ subject: Subject) async throws {
        guard let curable = subject.curable else { return }
        let old = try await subject.credential()
        await subject.age()
        let before = await subject.refreshes()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for _ in 0..<1000 {
                tasks.addTask {
                    let decision = await subject.strategy.refused(old, status: curable.status, reason: curable.reason)
                    try expect(decision == .retry, "one of a thousand refusals leads to \(decision)")
                    _ = try await subject.credential()
                }
            }
            try await tasks.waitForAll()
        }
        let count = await subject.refreshes() - before
        try expect(count == 1, "a thousand refusals caused \(count) refreshes")
    }

    private static func ignoresOldRefusals(_ subject: Subject) async throws {
        guard let curable = subject.curable else { return }
        let old = try await subject.credential()
        await subject.age()
        _ = await subject.strategy.refused(old, status: curable.status, reason: curable.reason)
        _ = try await subject.credential()
        let before = await subject.refreshes()
        let decision = await subject.strategy.refused(old, status: curable.status, reason: curable.reason)
        try expect(decision == .retry, "a late refusal of the old credential leads to \(decision)")
        _ = try await subject.credential()
        let count = await subject.refreshes() - before
        try expect(count == 0, "a late refusal of the old credential caused \(count) refreshes")
    }

    private static func doesNotLoop(_ subject: Subject) async throws {
        let status = subject.curable?.status ?? subject.hopeless.status
        let platform = ScriptedTransport { _ in .success(HTTPAnswer(status: status)) }
        let configuration = HTTPPoolConfiguration(endpoint: subject.destination, version: .http1)
        let pool = try AuthorizedTransport(platform, strategy: subject.strategy).pool(configuration)
        let before = await subject.refreshes()
        for number in 1...3 {
            let call = HTTPCall(HTTPCallTemplate(method: "POST"), path: "/")
            // A refusal that persists is a failure of the call.
            _ = try? await within(subject.waitLimit, "a call that is always refused did not end") {
                try await pool.send(call)
            }
            try expect(
                platform.calls.count <= 2 * number,
                "\(number) calls that were always refused went out \(platform.calls.count) times"
            )
            let count = await subject.refreshes() - before
            try expect(count <= number + 1, "\(number) calls that were always refused caused \(count) refreshes")
        }
    }

    private static func givesUp(_ subject: Subject) async throws {
        let credential = try await subject.credential()
        let decision = await subject.strategy.refused(
            credential,
            status: subject.hopeless.status,
            reason: subject.hopeless.reason
        )
        guard case .giveUp(let sentence) = decision else {
            throw ConformanceFailure("a refusal that nothing mends leads to \(decision)")
        }
        try expect(!sentence.isEmpty, "giving up says nothing to the operator")
        for header in credential.headers {
            try expect(!sentence.contains(header.value.reveal()), "giving up shows the secret")
        }
    }

    private static func ends(_ subject: Subject) async throws {
        _ = try await subject.credential()
        let strategy = subject.strategy
        for _ in 0..<2 {
            try await within(subject.waitLimit, "the shutdown did not end") { await strategy.shutdown() }
        }
    }
}

extension ConformanceNeed<AuthStrategyConformance.Subject> {
    static let curable = Self("curable: the refusal that a fresh credential mends, if any does") { $0.curable != nil }
}

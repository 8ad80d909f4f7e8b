public import ChaparCore

/// The promises of every `TokenProvider`, as checks that a plugin's tests run.
///
/// A provider and one text that is no token are enough to begin; each skipped check says what else to give.
///
/// ```swift
/// @Test("It keeps the promises of a token provider", arguments: TokenProviderConformance.checks)
/// func conformance(check: TokenProviderConformance.Check) async throws {
///     let subject = TokenProviderConformance.Subject(provider: PagerTokenProvider(), invalidTexts: ["no number"])
///     if let skip = try await check.run(subject) { try Test.cancel("\(skip)") }
/// }
/// ```
public enum TokenProviderConformance {
    /// A provider in each of the situations that the checks need.
    public struct Subject: Sendable {
        /// A provider that has a token.
        public var provider: any TokenProvider
        /// The same kind of provider, whose source has no token for now.
        public var empty: (any TokenProvider)?
        /// The same kind of provider, whose source never answers; its deadline must be short.
        public var hanging: (any TokenProvider)?
        /// The same kind of provider, whose source fails.
        public var failing: (any TokenProvider)?
        /// The same kind of provider, whose source returns another token after one was deleted.
        public var renewing: (any TokenDeleting)?
        /// Texts that cannot be a token of the service.
        public var invalidTexts: [String]
        /// The time on a slow machine after which a call counts as never ending.
        public var waitLimit = Duration.seconds(20)

        /// Makes a subject.
        public init(
            provider: any TokenProvider,
            empty: (any TokenProvider)? = nil,
            hanging: (any TokenProvider)? = nil,
            failing: (any TokenProvider)? = nil,
            renewing: (any TokenDeleting)? = nil,
            invalidTexts: [String] = []
        ) {
            self.renewing = renewing
            self.provider = provider
            self.empty = empty
            self.hanging = hanging
            self.failing = failing
            self.invalidTexts = invalidTexts
        }
    }

    /// A check of this kit.
    public typealias Check = ConformanceCheck<Subject>

    /// All checks.
    public static let checks: [Check] = [
        Check(
            "is of a service that the API knows",
            source: "TokenProvider.service",
            why: "A token of an unknown service is refused with 422 when the device is registered.",
            needs: [],
            run: hasKnownService
        ),
        Check(
            "gives tokens of its own service, in the form it wants itself",
            source: "TokenProvider.validate(_:)",
            why: "The registry checks tokens by the same rule; a token in another form is another device.",
            needs: [],
            run: givesValidTokens
        ),
        Check(
            "gives the same token until it changes",
            source: "TokenProvider.token()",
            why: "Every new token is a registration, and the old one stays as a dead device.",
            needs: [],
            run: isStable
        ),
        Check(
            "brings a token to its final form at once",
            source: "TokenProvider.validate(_:)",
            why: "A copied blank must not make a second device of one.",
            needs: [],
            run: validatesOnce
        ),
        Check(
            "refuses texts that cannot be a token, without repeating them",
            source: "InvalidToken.problem",
            why: "A wrong text would be registered, and cost a refused message; a repeated one stands in logs.",
            needs: [],
            wants: [.invalidTexts],
            run: refusesTexts
        ),
        Check(
            "says nil when there is no token",
            source: "TokenProvider.token()",
            why: "No token yet is no mistake: the app asks again later.",
            needs: [.empty],
            run: saysNil
        ),
        Check(
            "says that the source failed, and that trying again makes sense",
            source: "PushError.Code.unavailable",
            why: "A failure taken for \"no token\" unregisters the device.",
            needs: [.failing],
            run: saysFailure
        ),
        Check(
            "gives up on a source that never answers",
            source: "TokenProvider.token(): a deadline of its own",
            why: "The app's start would wait for it.",
            needs: [.hanging],
            run: givesUp
        ),
        Check(
            "ends when its caller is cancelled",
            source: "TokenProvider.token(): a deadline of its own",
            why: "Whoever leaves the screen must not leave a call behind.",
            needs: [.hanging],
            run: heedsCancellation
        ),
        Check(
            "claims to delete only what can be deleted",
            source: "TokenDeleting",
            why: "A log-out that believes in a deletion goes on getting messages.",
            needs: [],
            run: claimsNoDeletion
        ),
        Check(
            "deletes a token, so that the next one is new, and one that is gone",
            source: "TokenDeleting.delete(_:)",
            why: "After a log-out the old token must not get the next user's messages.",
            needs: [.renewing],
            run: deletes
        ),
    ]

    private static func hasKnownService(_ subject: Subject) async throws {
        let service = subject.provider.service
        try expect(TokenService.named(service.rawValue) != nil, "the API does not know the service \(service)")
        try expect(service.rawValue == service.rawValue.lowercased(), "the service's name is not lower case")
    }

    private static func givesValidTokens(_ subject: Subject) async throws {
        let token = try await token(of: subject.provider)
        try expect(token.service == subject.provider.service, "the token is of the service \(token.service)")
        let valid = try subject.provider.validate(token.value)
        try expect(valid == token, "validating its own token changes it")
    }

    private static func isStable(_ subject: Subject) async throws {
        let first = try await token(of: subject.provider)
        let second = try await token(of: subject.provider)
        try expect(first == second, "two fetches in a row gave different tokens")
    }

    private static func validatesOnce(_ subject: Subject) async throws {
        let token = try await token(of: subject.provider)
        let once = try subject.provider.validate("  \(token.value)\n")
        let twice = try subject.provider.validate(once.value)
        try expect(once == twice, "validating a validated token changes it")
        try expect(once == token, "blanks around a token make it another one")
    }

    private static func refusesTexts(_ subject: Subject) async throws {
        for text in [""] + subject.invalidTexts {
            do throws(InvalidToken) {
                _ = try subject.provider.validate(text)
            } catch {
                try expect(!error.problem.isEmpty, "the refusal of a text says nothing")
                try expect(error.service == subject.provider.service, "a refusal names the service \(error.service)")
                try expect(text.isEmpty || !error.description.contains(text), "a refusal repeats the text")
                continue
            }
            throw ConformanceFailure("a text of \(text.count) characters passed as a token, and should not")
        }
    }

    private static func saysNil(_ subject: Subject) async throws {
        guard let empty = subject.empty else { return }
        let token = try await empty.token()
        try expect(token == nil, "a source without a token gave one")
    }

    private static func saysFailure(_ subject: Subject) async throws {
        guard let failing = subject.failing else { return }
        try await expectUnavailable(failing, subject.waitLimit, "a source that fails")
    }

    private static func givesUp(_ subject: Subject) async throws {
        guard let hanging = subject.hanging else { return }
        try await expectUnavailable(hanging, subject.waitLimit, "a source that never answers")
    }

    private static func heedsCancellation(_ subject: Subject) async throws {
        guard let hanging = subject.hanging else { return }
        try await within(subject.waitLimit, "a cancelled caller still waits") {
            let asking = Task { _ = try? await hanging.token() }
            asking.cancel()
            await asking.value
        }
    }

    private static func claimsNoDeletion(_ subject: Subject) async throws {
        guard subject.provider.service == .iOSAPNs else { return }
        try expect(!(subject.provider is any TokenDeleting), "an Apple token cannot be deleted")
    }

    private static func deletes(_ subject: Subject) async throws {
        guard let renewing = subject.renewing else { return }
        let old = try await token(of: renewing)
        try await renewing.delete(old)
        let new = try await renewing.token()
        try expect(new != old, "the token is the same after its deletion")
        try await renewing.delete(old)
    }

    private static func expectUnavailable(
        _ provider: any TokenProvider,
        _ waitLimit: Duration,
        _ what: String
    ) async throws {
        do {
            _ = try await within(waitLimit, "\(what) leads to no end") { try await provider.token() }
        } catch let error as PushError {
            try expect(error.code == .unavailable, "\(what) leads to \(error.code.rawValue)")
            return
        }
        throw ConformanceFailure("\(what) leads to an answer")
    }

    private static func token(of provider: any TokenProvider) async throws -> DeviceToken {
        guard let token = try await provider.token() else { throw ConformanceFailure("the provider gave no token") }
        return token
    }
}

extension ConformanceNeed<TokenProviderConformance.Subject> {
    static let empty = Self("empty: a provider whose source has no token for now") { $0.empty != nil }
    static let hanging = Self("hanging: a provider whose source never answers") { $0.hanging != nil }
    static let failing = Self("failing: a provider whose source fails") { $0.failing != nil }
    static let renewing = Self("renewing: a provider that deletes tokens, if the service can") { $0.renewing != nil }
    static let invalidTexts = Self("invalidTexts: texts that are no token of the service") { !$0.invalidTexts.isEmpty }
}

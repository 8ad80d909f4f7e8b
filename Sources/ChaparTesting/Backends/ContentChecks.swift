internal import ChaparCore
internal import Foundation

/// Checks what is in the requests of a backend, and that none goes where it must not.
extension BackendConformance {
    static let contents: [Check] = [
        Check(
            "sends the time to live that a message has",
            source: "PushRequest.remaining(now:)",
            why: "Without it the platform keeps a message for weeks: a code arrives after it has ended.",
            needs: [.sent],
            declared: .timeToLive,
            run: sendsTimeToLive
        ),
        Check(
            "refuses a message whose time to live has ended, and sends nothing of it",
            source: "Refusal.expired",
            why: "After an outage hours of ended messages would reach people.",
            needs: [],
            wants: [.taken, .sent],
            declared: .timeToLive,
            run: refusesExpired
        ),
        Check(
            "speaks to each recipient in the language of the device",
            source: "Addressee.language, LocalizedText.resolved(for:)",
            why: "A person gets a text that they cannot read.",
            needs: [.sent],
            declared: .languages,
            run: speaksLanguages
        ),
        Check(
            "brings any text to the platform",
            source: "PushNotification.title, PushNotification.body",
            why: "One message with & or a line break would be refused as malformed, or say something else.",
            needs: [],
            run: bringsTexts
        ),
        Check(
            "sends the same request with every attempt of a message",
            source: "Addressee.isReplay",
            why: "What is new with each attempt keeps the platform, or the screen, from knowing the second copy.",
            needs: [.sent],
            run: repeatsRequests
        ),
        Check(
            "sends nothing to an address that is not the platform's",
            source: "docs/Plugins.md: A recipient that is an address",
            why: "Who registers an address of their own gets the account's credential.",
            needs: [.sent, .hostileRecipients],
            declared: .addresses,
            run: keepsToPlatform
        ),
    ]

    // MARK: Time

    private static func sendsTimeToLive(_ subject: Subject) async throws {
        var request = subject.request(0..<1)
        // The end is far off, so that a slow send changes nothing of importance; a day less shows in any unit.
        var sent: [[SentRequest]] = []
        let now = subject.now().timeIntervalSince1970
        for hours in [72, 48] {
            request.expiration = .at(Int64(clamping: now).adding(clamping: Int64(hours * 3_600)))
            sent.append(try await subject.requests(of: request))
        }
        try expect(!sent[0].isEmpty, "an accepted message left no request in `sent`")
        try expect(sent[0] != sent[1], "a message for three days and one for two are the same request")
    }

    private static func refusesExpired(_ subject: Subject) async throws {
        var request = subject.request(0..<2)
        request.expiration = .at(1)
        let before = await subject.contents().count
        let expired = request
        let reached = try await subject.rise(subject.taken) {
            for outcome in try await subject.send(expired) {
                guard case .refused(let refusal) = outcome else {
                    throw ConformanceFailure("a message that ended in 1970 was not refused: \(outcome)")
                }
                try expect(refusal.kind == .message, "the refusal of an ended message blames \(refusal.kind.rawValue)")
                try expect(refusal.advice == .never, "the advice for an ended message is \(refusal.advice)")
                try expect(refusal.invalidation == nil, "an ended message invalidates its token")
            }
        }
        let sent = await subject.contents().count - before
        try expect((reached ?? 0) == 0 && sent == 0, "a message that ended in 1970 was sent")
    }

    // MARK: Texts

    private static func speaksLanguages(_ subject: Subject) async throws {
        // The texts are ASCII, which every encoding leaves as it is.
        let texts = LocalizedText.localized(default: "kit-english-41", languages: ["fa": "kit-persian-42"])
        for (language, expected) in [("fa", "kit-persian-42"), ("en", "kit-english-41")] {
            var request = subject.request(0..<1)
            request.notification.title = texts
            request.notification.body = texts
            request.recipients[0].language = language
            let sent = try await subject.requests(of: request)
            let isThere = sent.contains { $0.text.contains(expected) || $0.path.contains(expected) }
            try expect(isThere, "the text for a device in \(language) is in no request")
        }
    }

    /// Texts that break a request whose author glues strings together.
    private static let texts = [
        "Tom & Jerry", "1 < 2 > 0", "She said \"yes\"", "it's", "back\\slash", "100 % {0} ${HOME} %s", "]]>",
        "two\nlines", "a\ttab", "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} \u{1F1EE}\u{1F1F7}", "e\u{301}",
        "\u{633}\u{644}\u{627}\u{645}\u{200C}\u{60C}", "\u{202B}right to left\u{202C}",
    ]

    private static func bringsTexts(_ subject: Subject) async throws {
        for text in texts {
            var request = subject.request(0..<1)
            request.notification.title = .plain(text)
            request.notification.body = .plain(text)
            let outcome = try await subject.send(request)[0]
            guard case .accepted = outcome else {
                throw ConformanceFailure("a message with the text \(text.debugDescription) came to \(outcome)")
            }
        }
    }

    // MARK: Repeats

    private static func repeatsRequests(_ subject: Subject) async throws {
        var request = subject.request(0..<1)
        var sent: [[SentRequest]] = []
        for isReplay in [false, false, true] {
            request.recipients[0].isReplay = isReplay
            sent.append(try await subject.requests(of: request))
        }
        try expect(!sent[0].isEmpty, "an accepted message left no request in `sent`")
        let hint = "if the platform asks for that, take it out in `stripped`"
        for (number, other) in sent.enumerated().dropFirst() {
            let what = number == 1 ? "two attempts" : "an attempt and its replay"
            guard let difference = difference(sent[0], other) else { continue }
            throw ConformanceFailure("\(what) of one message differ in \(difference); \(hint)")
        }
    }

    /// Names the part in which two attempts differ, without its value, which may be secret.
    private static func difference(_ one: [SentRequest], _ other: [SentRequest]) -> String? {
        guard one != other else { return nil }
        guard one.count == other.count else { return "the number of requests, \(one.count) and \(other.count)" }
        for (left, right) in zip(one, other) where left != right {
            if left.endpoint != right.endpoint || left.method != right.method { return "where they go" }
            if left.path != right.path { return "the path" }
            if left.body != right.body { return "the body" }
            let names = left.headers.map(\.name) + right.headers.map(\.name)
            return "the field \(names.first { left.header($0) != right.header($0) } ?? "order")"
        }
        return nil
    }

    // MARK: Addresses

    private static func keepsToPlatform(_ subject: Subject) async throws {
        guard let strangers = subject.hostileRecipients else { return }
        for (number, stranger) in strangers.enumerated() {
            if case .token(let token) = stranger {
                let fault = fault(of: token, subject)
                try expect(fault != nil, "the hostile recipient \(number) passes the check before registration")
                try expect(fault?.contains(token.value) != true, "the fault of a token repeats the token")
            }
            let before = await subject.sent?().count ?? 0
            let request = PushRequest(subject.request(0..<1).notification, to: [Addressee(stranger)])
            let outcome = try await subject.send(request)
            guard case .refused(let refusal) = outcome[0] else {
                throw ConformanceFailure("the hostile recipient \(number) was not refused: \(outcome[0])")
            }
            try expect(refusal.advice == .never, "the advice for the hostile recipient \(number) is \(refusal.advice)")
            let rise = (await subject.sent?().count ?? 0) - before
            try expect(rise == 0, "a message to the hostile recipient \(number) led to \(rise) requests")
        }
    }

    private static func fault(of token: DeviceToken, _ subject: Subject) -> String? {
        do throws(InvalidToken) {
            _ = try subject.backend.checked(token)
            return nil
        } catch {
            return error.description
        }
    }
}

extension BackendConformance.Subject {
    /// Returns the requests so far that are about messages.
    func contents() async -> [SentRequest] { await sent?().filter { !isCredentialRequest($0) } ?? [] }

    /// Sends to a good recipient and returns what left for it, without what differs with each attempt.
    func requests(of request: PushRequest) async throws -> [SentRequest] {
        let before = await contents().count
        try expectAccepted(try await send(request)[0])
        return await contents().dropFirst(before).map(stripped)
    }
}

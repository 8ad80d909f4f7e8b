import ChaparCore

/// A peer's record of one request that it read: the bytes that it wrote about it, and how many of them must have
/// arrived.
struct Attempt: Sendable {
    let connection: Int
    /// Every status that was written for it, whole answer or not.
    var statuses: Set<Int> = []
    /// The status of a whole answer that was written before any nonsense.
    var certain: Int?
    /// The peer said that it did not process the request, and had said nothing else about it before.
    var isTurnedAway = false
    /// The bytes the peer sent about it have no certain meaning.
    var isObscure = false
    /// An answer to no request may have been taken for this one's: no client can tell them apart.
    var mayBeConfused = false
}

/// The peer's records of all calls, by the call's number, compared with the pool's replies.
struct Attempts: Sendable {
    private(set) var all: [Int: [Attempt]] = [:]

    /// Calls by number; each says its number in its path.
    static func calls(_ numbers: Range<Int>, deadline: Duration? = nil) -> [HTTPCall] {
        let template = HTTPCallTemplate(method: "POST", deadline: deadline)
        return numbers.map { HTTPCall(template, path: "/call/\($0)", body: Array("call \($0)".utf8)) }
    }

    static func number(ofPath path: String?) -> Int? { path.flatMap { Int($0.dropFirst("/call/".count)) } }

    /// The body of the answer to a call, which says whose and of which kind it is.
    static func body(_ number: Int, _ status: Int) -> [UInt8] { Array("call \(number) gets \(status)".utf8) }

    /// A request was read; gives its place.
    mutating func add(_ attempt: Attempt, number: Int) -> Int {
        all[number, default: []].append(attempt)
        return all[number, default: []].count - 1
    }

    mutating func change(_ number: Int, _ place: Int, _ body: (inout Attempt) -> Void) {
        guard var attempts = all[number], attempts.indices.contains(place) else { return }
        body(&attempts[place])
        all[number] = attempts
    }

    /// Returns the problems of the replies to the calls from `first` on; empty when all is well.
    ///
    /// With `arrives`, what was written before any nonsense must have been told, and a call may only be given up as not
    /// processed when it was turned away three times.
    func complaints(about replies: Replies, first: Int, count: Int, arrives: Bool) -> [String] {
        var complaints = replies.doubled > 0 ? ["\(replies.doubled) calls were told of twice"] : []
        let told = replies.all
        for number in first..<first + count {
            guard let reply = told[number - first] else {
                complaints.append("call \(number) was not told of")
                continue
            }
            if let text = complaint(about: reply.result, number: number, arrives: arrives) {
                complaints.append("call \(number): \(text); it had \(all[number] ?? [])")
            }
        }
        return complaints
    }

    private func complaint(about result: Result<HTTPAnswer, HTTPFailure>, number: Int, arrives: Bool) -> String? {
        let attempts = all[number] ?? []
        let isObscure = attempts.contains(where: \.isObscure)
        let certain = attempts.lazy.compactMap(\.certain).first
        let last = attempts.count - 1
        for (place, attempt) in attempts.enumerated() where place < last {
            if !attempt.isTurnedAway, !attempt.isObscure { return "sent again although it may have been processed" }
        }
        switch result {
        case .success(let answer):
            if let certain, arrives, answer.status != certain { return "answered \(answer.status)" }
            guard !isObscure, !attempts.contains(where: \.mayBeConfused) else { return nil }
            guard attempts.contains(where: { $0.statuses.contains(answer.status) }) else {
                return "answered \(answer.status), which nobody wrote"
            }
            guard answer.body == Self.body(number, answer.status) else {
                return "answered \(answer) with another body: \(String(decoding: answer.body, as: UTF8.self))"
            }
        case .failure(let failure):
            if certain != nil, arrives { return "failed although its answer was whole: \(failure)" }
            guard failure.stage == .notProcessed else { return nil }
            let isSafe = attempts.allSatisfy { $0.isTurnedAway || $0.isObscure && $0.certain == nil }
            if !isSafe { return "not processed, they say, but the peer had read it: \(failure)" }
            // A handshake that breaks off fails all that wait: that is the pool's rule for `tls`.
            if arrives, !isObscure, attempts.count < 3, failure.cause != .tls { return "given up early: \(failure)" }
        }
        return nil
    }
}

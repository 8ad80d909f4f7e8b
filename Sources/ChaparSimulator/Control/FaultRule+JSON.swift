internal import ChaparCore

/// Fault rules in the JSON form of the control API. All names are snake_case, all durations are in seconds.
///
/// ```json
/// { "name": "flaky", "at": "request", "match": { "topic": "com.example.app", "share": 0.1, "count": 5 },
///   "steps": [ { "do": "delay", "seconds": 0.5 },
///              { "do": "answer", "status": 503, "reason": "ServiceUnavailable" } ] }
/// ```
extension FaultRule {
    init(_ json: JSONValue, _ words: FaultVocabulary) throws(ControlError) {
        var fields = try ControlFields(json, in: "rule")
        let name = try fields.string("name") ?? ""
        let point = try fields.choice("at", Point.self) ?? .request
        let match = try fields.remove("match").map { (value) throws(ControlError) in try FaultMatch(value, words) }
        guard let list = fields.remove("steps")?.arrayValue, !list.isEmpty else {
            throw fields.wrong("steps", "a list")
        }
        var steps: [FaultStep] = []
        for step in list { steps.append(try FaultStep(step)) }
        try fields.finish()
        self.init(name: name, at: point, match: match ?? FaultMatch(), steps)
    }
}

/// The names that fault rules of one simulator may use.
package struct FaultVocabulary: Sendable {
    /// The simulator's listeners.
    package let listeners: [SandboxListener]
    /// Whether device tokens are the same in upper and lower case.
    package let foldsTokens: Bool

    package init(listeners: [SandboxListener], foldsTokens: Bool) {
        self.listeners = listeners
        self.foldsTokens = foldsTokens
    }
}

extension FaultMatch {
    init(_ json: JSONValue, _ words: FaultVocabulary) throws(ControlError) {
        var fields = try ControlFields(json, in: "match")
        let prefix = try fields.string("token_prefix")
        self.init(
            listener: try fields.listener(words.listeners),
            tokenPrefix: words.foldsTokens ? prefix?.lowercased() : prefix,
            topic: try fields.string("topic"),
            pathPrefix: try fields.string("path_prefix"),
            connection: try fields.integer("connection"),
            every: try fields.integer("every"),
            share: try fields.number("share"),
            from: try fields.seconds("from") ?? .zero,
            until: try fields.seconds("until"),
            count: try fields.integer("count")
        )
        let first = try fields.integer("first_request")
        let last = try fields.integer("last_request")
        if first != nil || last != nil {
            let range = (first ?? 1, last ?? .max)
            guard range.0 <= range.1 else { throw fields.wrong("last_request", "at least first_request") }
            requests = range.0...range.1
        }
        try fields.finish()
    }
}

extension ControlFields {
    /// Takes the member `listener`, which must be one of the simulator's own.
    mutating func listener(_ known: [SandboxListener]) throws(ControlError) -> SandboxListener? {
        try string("listener").map { (text) throws(ControlError) in
            let name = SandboxListener(rawValue: text)
            guard known.contains(name) else {
                throw wrong("listener", "one of " + known.map(\.rawValue).joined(separator: ", "))
            }
            return name
        }
    }
}

extension FaultStep {
    init(_ json: JSONValue) throws(ControlError) {
        var fields = try ControlFields(json, in: "step")
        let kind = try fields.require(fields.string("do"), "do")
        switch kind {
        case "delay": self = .delay(try fields.require(fields.seconds("seconds"), "seconds"))
        case "delay_settings": self = .delaySettings(try fields.require(fields.seconds("seconds"), "seconds"))
        case "answer": self = .answer(try FaultAnswer(&fields))
        case "distort": self = .distort(try fields.require(fields.choice("how", FaultDistortion.self), "how"))
        case "silence": self = .silence
        case "reset_stream": self = .resetStream(code: UInt32(clamping: try fields.integer("code") ?? 2))
        case "go_away": self = .goAway(try SandboxGoAway(&fields))
        case "maximum_streams": self = .maximumStreams(try fields.require(fields.integer("count"), "count"))
        case "initial_window": self = .initialWindow(try fields.require(fields.integer("bytes"), "bytes"))
        case "end": self = .end(try fields.require(fields.choice("how", SandboxConnectionEnd.self), "how"))
        case "black_hole": self = .blackHole
        case "ignore_pings": self = .ignorePings
        case "throttle":
            self = .throttle(bytesPerSecond: try fields.require(fields.integer("bytes_per_second"), "bytes_per_second"))
        case "wedge_after_expiry": self = .wedgeAfterExpiry
        default: throw ControlError("step.do: \(kind) is unknown")
        }
        try fields.finish()
    }
}

extension FaultAnswer {
    init(_ fields: inout ControlFields) throws(ControlError) {
        self.init(
            try fields.require(fields.integer("status"), "status"),
            try fields.string("reason"),
            retryAfter: try fields.integer("retry_after"),
            body: try fields.string("body").map { Array($0.utf8) }
        )
        retryAfterIsDate = try fields.bool("retry_after_is_date") ?? false
        if let milliseconds = try fields.integer("timestamp") { timestamp = .milliseconds(Int64(milliseconds)) }
        if let offset = try fields.seconds("timestamp_offset") { timestamp = .now(offset: offset) }
        for (name, value) in fields.remove("headers")?.objectValue ?? [:] {
            guard let text = value.stringValue else { throw fields.wrong("headers", "texts by the names of fields") }
            headers.append(HTTPHeader(name.lowercased(), text))
        }
        guard (200...599).contains(status) else { throw fields.wrong("status", "200 to 599") }
    }
}

extension SandboxGoAway {
    init(_ fields: inout ControlFields) throws(ControlError) {
        let last: LastStream =
            switch fields.remove("last") {
            case nil, .string("current"): .current
            case .string("none"): .none
            case .string("middle"): .middle
            case .string("maximum"): .maximum
            case .integer(let id): .stream(Int32(clamping: id))
            default: throw fields.wrong("last", "current, none, middle, maximum or a stream")
            }
        let code = UInt32(clamping: try fields.integer("code") ?? 0)
        let ending = try fields.choice("ending", Ending.self) ?? .afterAnswers
        let reason = try fields.string("reason")
        let debugData = try fields.string("debug_data")
        if let reason, debugData == nil {
            self.init(reason: reason, last: last, code: code, ending: ending)
        } else {
            self.init(last: last, code: code, debugData: Array((debugData ?? "").utf8), ending: ending)
        }
    }
}

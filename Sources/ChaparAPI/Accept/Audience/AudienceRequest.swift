internal import ChaparDelivery
internal import ChaparQueue
internal import ChaparCore

/// The audience of the own registry as a request names it: `to.audience`, or a shorthand of it.
struct AudienceRequest: Sendable {
    /// The largest rule, in bytes of JSON.
    static let maximumRuleBytes = 65_536

    /// The rule; its form is not checked yet.
    var rule: JSONValue
    /// The pointer to it.
    var pointer: String
    /// Whether the request has another form than the rule: then mistakes are about the whole form.
    var isShorthand = false

    /// The number of JSON values in it.
    var values: Int { rule.innerCount }

    /// Reads the next value, a rule of any form; nil for one that is too large.
    static func rule(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> JSONValue? {
        scanner.skipSpace()
        let start = scanner.offset
        let value = try scanner.value()
        let bytes = scanner.offset - start
        guard bytes <= maximumRuleBytes else {
            let detail = "At most \(maximumRuleBytes) bytes; it has \(bytes). Store parts of it as segments."
            issues.add(pointer, "too_large", detail)
            return nil
        }
        return value
    }
}

extension TagFilter {
    /// The rule that says the same of the registry's devices.
    var rule: AudienceRule {
        var parts = all.map(AudienceRule.tag)
        if !any.isEmpty { parts.append(.any(any.map(AudienceRule.tag))) }
        parts += none.map { .not(.tag($0)) }
        return .all(parts)
    }
}

extension NotificationDraft {
    /// Decides, once the whole request is read, whether `tags` and `everyone` mean the registry, or the users of the
    /// backend that the request names.
    mutating func chooseAudience(_ issues: inout RequestIssues) {
        if backend == nil, audienceRequest == nil, !isChoiceFaulty {
            switch recipients.first {
            case .tags(let filter)?:
                audienceRequest = AudienceRequest(rule: filter.rule.json, pointer: "#/to/tags", isShorthand: true)
            case .everyone?:
                audienceRequest = AudienceRequest(rule: ["everyone": true], pointer: "#/to/everyone", isShorthand: true)
            default: break
            }
            if audienceRequest != nil { recipients = [] }
        }
        if audienceRequest != nil {
            guard backend != nil else { return }
            isChoiceFaulty = true
            let detail = "An audience is one of the own registry: leave the backend out, or name a route."
            return issues.add("#/backend", "audience_and_backend", detail)
        }
        // Without recipients the mistake is another one.
        guard !recipients.isEmpty || notification.activity != nil else { return }
        if exclude != nil {
            let detail = "Only audiences of the own registry have exclude: audience, segment, tags and everyone."
            issues.add("#/to/exclude", "needs_audience", detail)
        }
        for name in audienceOptions.names {
            let detail = "Only messages to an audience of the own registry have this option."
            issues.add("#/options/\(name)", "needs_audience", detail)
        }
    }
}

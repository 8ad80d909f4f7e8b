internal import ChaparCore

/// An answer of a service, as the contract of ``ServiceBackend`` has it.
///
/// Reading never fails: a body that cannot be read leaves nothing.
struct ServiceAnswer {
    private let body: JSONValue?

    init(_ answer: HTTPAnswer) { body = try? JSONValue(parsing: answer.body) }

    /// The outcomes by the ids of their messages; nil when the body has no list of them.
    ///
    /// The first outcome of a message counts: a second one must not turn a failure into a success.
    var outcomes: [String: JSONValue]? {
        guard let list = body?["outcomes"]?.arrayValue else { return nil }
        var outcomes: [String: JSONValue] = [:]
        for outcome in list {
            if let id = outcome["id"]?.stringValue, outcomes[id] == nil { outcomes[id] = outcome }
        }
        return outcomes
    }

    /// The service's own words about the whole request, cut to 300 characters; nil when it gave none.
    var text: String? { (body?["detail"] ?? body?["title"])?.stringValue.map { String($0.prefix(300)) } }
}

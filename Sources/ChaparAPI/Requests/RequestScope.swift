package import ChaparDelivery
internal import ChaparCore
package import ChaparQueue
internal import Foundation
package import HTTPTypes
internal import Hummingbird

/// The context of one request: the configuration that it started with, its caller, its parameters.
///
/// Made by ``GatewayResponder``, passed to the endpoint. A value that ends with the request.
package struct RequestScope: Sendable {
    let snapshot: APISnapshot
    package let caller: Caller
    /// The gateway as the caller sees it.
    var gateway: GatewaySnapshot { snapshot.gateway(for: caller) }
    /// The path without its query.
    package let path: Substring
    /// The query, without its question mark; empty without one.
    let query: Substring
    let fields: HTTPFields
    /// The peer that sent the request; for limits.
    package var peer = PeerAddress.local
    /// The trace that the request names; read by endpoints that accept notifications only.
    package var trace: TraceContext?

    /// Creates the context of a request; without a peer it counts as one over a Unix socket.
    package init(
        snapshot: APISnapshot,
        caller: Caller,
        path: Substring,
        query: Substring,
        fields: HTTPFields,
        peer: PeerAddress = PeerAddress.local
    ) {
        self.snapshot = snapshot
        self.caller = caller
        self.path = path
        self.query = query
        self.fields = fields
        self.peer = peer
    }

    /// The caller and the peer for whom the memory of its body is reserved.
    var payer: Admission.Payer { caller.payer(at: peer) }

    /// The parameters of the query in order, not decoded; one without `=` has an empty value.
    private var pairs: some Sequence<(name: Substring, value: Substring)> {
        query.split(separator: "&").lazy.map { pair -> (name: Substring, value: Substring) in
            let end = pair.firstIndex(of: "=") ?? pair.endIndex
            return (pair[..<end], pair[end...].dropFirst())
        }
    }

    private static func decode(_ text: Substring) -> String {
        let plain = text.replacing("+", with: " ")
        return String(plain).removingPercentEncoding ?? String(plain)
    }

    /// Returns the decoded value of a query parameter, nil without it.
    ///
    /// Of repeated parameters the first counts.
    func parameter(_ name: String) -> String? {
        pairs.first { $0.name == name }.map { Self.decode($0.value) }
    }

    /// Returns what the parameter `cursor` says by `read`, nil without it; one that `read` does not know is refused.
    func cursor<Value>(_ read: (String) -> Value?) throws(Problem) -> Value? {
        guard let text = parameter("cursor") else { return nil }
        guard let value = read(text) else { throw .badCursor }
        return value
    }

    /// Returns the parameter `cursor` where it is a name, nil without it; a longer one is of no page.
    func nameCursor() throws(Problem) -> String? {
        try cursor { (1...300).contains($0.utf8.count) ? $0 : nil }
    }

    /// Returns all query parameters, decoded; of repeated ones the first counts.
    func parameters() throws(Problem) -> [String: String] {
        var parameters: [String: String] = [:]
        for (name, value) in pairs {
            guard parameters.count < 64 else { throw .badParameter("query", "there are too many.") }
            let name = Self.decode(name)
            parameters[name] = parameters[name] ?? Self.decode(value)
        }
        return parameters
    }

    /// The names of the parameters that the query has several times, in order.
    var repeatedParameters: [String] {
        var (seen, repeated): (Set<Substring>, Set<String>) = ([], [])
        for (name, _) in pairs where !seen.insert(name).inserted { repeated.insert(String(name)) }
        return repeated.sorted()
    }

    /// Returns the name under which the query has a parameter: its own, or the former one.
    ///
    /// Throws when the query has both: which of the two values is meant cannot be known.
    func nameInUse(_ names: FormerName) throws(Problem) -> String {
        let (name, old) = (names.present.description, names.former.description)
        guard parameter(old) != nil else { return name }
        guard parameter(name) == nil else {
            throw .badParameter(old, "is the old name of \"\(name)\", which is there as well: leave \"\(old)\" out.")
        }
        return old
    }

    /// Returns the value of a query parameter that is a whole number within a range, or a default.
    func number(_ name: String, in range: ClosedRange<Int>, default fallback: Int) throws(Problem) -> Int {
        guard let text = parameter(name) else { return fallback }
        guard let value = Int(text), range.contains(value) else {
            throw .badParameter(name, "must be a whole number from \(range.lowerBound) to \(range.upperBound).")
        }
        return value
    }

    /// Returns the value of a query parameter that is `true` or `false`; false without it.
    func flag(_ name: String) throws(Problem) -> Bool {
        switch parameter(name) {
        case nil, "false"?: return false
        case "true"?: return true
        default: throw .badParameter(name, "must be true or false.")
        }
    }

    /// Refuses unknown parameters: a misspelt filter must not look like one that found nothing.
    ///
    /// The former names of `renamed` are allowed as well; suggestions name the present ones only.
    func allowParameters(_ names: [String], renamed: [FormerName] = []) throws(Problem) {
        for name in pairs.lazy.map({ String($0.name) }) {
            guard names.contains(name) || renamed.contains(where: { $0.former.description == name }) else {
                let hint = didYouMean(name, names, renamed: renamed) ?? "there is no such parameter here."
                throw .badParameter(String(name.prefix(64)), hint)
            }
        }
    }
}

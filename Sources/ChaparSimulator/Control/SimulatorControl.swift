package import ChaparCore

/// The control calls of one simulator: its own, and those of ``HostControl``.
package protocol SimulatorControl: Sendable {
    /// The calls that every simulator has.
    var common: HostControl { get }
    /// The path of the simulator in the sandbox, as an error shows it before the call's own; empty for none.
    var place: String { get }

    /// Answers a call of the simulator's own; returns nil for any other.
    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue?
}

extension SimulatorControl {
    package var place: String { "" }

    /// Carries out a call, whose path has no platform name any more.
    package func route(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        if let common = try common.route(request) { return common }
        if let own = try answer(request) { return own }
        throw ControlError("no such call: \(request.method) \(place)\(request.path)", status: 404)
    }
}

extension ControlRequest {
    /// Returns the page of an inbox that the call asks for with `from` and `limit`.
    package func page<Item>(
        of inbox: (_ from: Int, _ limit: Int) -> [Item],
        _ entry: (Item) -> (number: Int, json: JSONValue)
    ) -> JSONValue {
        let from = query["from"].flatMap { Int($0) } ?? 0
        let limit = min(1000, max(1, query["limit"].flatMap { Int($0) } ?? 100))
        let entries = inbox(from, limit).map(entry)
        let next = entries.last.map { $0.number + 1 } ?? from
        return ["items": .array(entries.map(\.json)), "next": .integer(Int64(next))]
    }
}

extension JSONObject {
    /// Makes an object of counts by their reasons, in the order of the reasons.
    package init(counts: [String: Int]) {
        self.init()
        for (reason, count) in counts.sorted(by: { $0.key < $1.key }) { self[reason] = .integer(Int64(count)) }
    }

    /// Adds counts by their names.
    package mutating func add(counts: [(String, Int)]) {
        for (name, count) in counts { self[name] = .integer(Int64(count)) }
    }
}

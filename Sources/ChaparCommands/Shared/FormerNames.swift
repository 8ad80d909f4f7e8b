import ChaparCore

extension FormerName {
    /// Returns the current name for the former one, and any other text unchanged: for sentences, which have only
    /// current names.
    func current(_ name: String) -> String { name == former.description ? present.description : name }
}

/// Reads answers of gateways that know a field by its former name only.
///
/// Gateways show both names (``FormerName``); one of an older version, which the commands may meet during an upgrade,
/// shows the former name alone.
extension JSONValue {
    /// Returns the value of a field, or that of its former name.
    func value(of name: FormerName) -> JSONValue? {
        self[name.present.description] ?? self[name.former.description]
    }

    /// The delivery worker of a backend in an answer of `/v1/backends`.
    var worker: JSONValue? { value(of: .worker) }
}

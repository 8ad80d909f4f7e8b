import Foundation
import ChaparCore

/// An answer of OneSignal: its errors in one shape, whichever of the three it wrote them in.
///
/// Reading never fails: a body that cannot be read leaves only the status.
struct OneSignalAnswer {
    /// One error.
    struct Fault: Equatable {
        var code: String?
        var text: String
        var meta: JSONValue?
    }

    let status: Int
    /// The body as an object; nil when it is none.
    let body: JSONObject?
    let faults: [Fault]
    let retryAfter: Duration?
    let isReplayed: Bool

    init(_ answer: HTTPAnswer, now: Date) {
        status = answer.status
        body = (try? JSONValue(parsing: answer.body))?.objectValue
        faults = Self.faults(body?["errors"])
        retryAfter = answer.retryAfter(now: now) ?? answer.header("retryafter").flatMap { Self.seconds($0) }
        isReplayed = answer.header("idempotent-replayed")?.lowercased() == "true"
    }

    /// The id of the message or player that was made; nil when none was: OneSignal then writes no id or an empty one.
    var id: String? {
        guard let id = body?["id"]?.stringValue, !id.isEmpty else { return nil }
        return id
    }

    /// The texts of all errors in one line of at most 300 characters, without ids and tokens.
    var text: String? {
        guard !faults.isEmpty else { return nil }
        let joined = faults.map { fault in
            let text = fault.text.isEmpty ? fault.code ?? "" : fault.text
            return Self.withoutIDs(text)
        }.joined(separator: "; ")
        return String(joined.prefix(300))
    }

    func mentions(_ words: String) -> Bool { faults.contains { $0.text.localizedCaseInsensitiveContains(words) } }
    func hasCode(_ code: String) -> Bool { faults.contains { $0.code == code } }

    /// Whether a player or subscription is gone; the caller then registers the device again.
    var isUnknownDevice: Bool {
        status == 404 || mentions("No user with this id found") || hasCode("subscription-0")
    }

    /// Returns the entries of a map among the errors, such as `invalid_player_ids`.
    func entries(_ name: String) -> [String] {
        Self.strings(body?["errors"]?[name])
    }

    /// The external ids in `invalid_aliases`.
    var invalidAliases: [String] {
        (body?["errors"]?["invalid_aliases"]?.objectValue ?? JSONObject()).flatMap { Self.strings($0.value) }
    }

    private static func strings(_ value: JSONValue?) -> [String] { (value?.arrayValue ?? []).compactMap(\.stringValue) }

    private static func seconds(_ text: String) -> Duration? {
        Int64(text).map { .seconds(min(max($0, 0), 86400)) }
    }

    private static func faults(_ value: JSONValue?) -> [Fault] {
        switch value {
        case .string(let text)?: return [Fault(text: text)]
        case .array(let elements)?:
            return elements.map { element in
                if let text = element.stringValue { return Fault(text: text) }
                return Fault(
                    code: element["code"]?.stringValue,
                    text: element["title"]?.stringValue ?? element["message"]?.stringValue ?? "",
                    meta: element["meta"]
                )
            }
        case .object(let object)?: return object.map { Fault(code: $0.name, text: "", meta: $0.value) }
        default: return []
        }
    }

    /// Removes ids from a text: OneSignal repeats every id of a request in some of its errors, and ids are not logged.
    private static func withoutIDs(_ text: String) -> String {
        text.split(separator: " ").filter { $0.count < 32 || $0.contains { !$0.isASCII } }.joined(separator: " ")
    }
}

internal import PushCore
internal import PushQueue

/// The events that a caller may see.
///
/// An administrator of the whole gateway sees all. Other callers see events of notifications whose sender they may see, and of
/// backends that they may use, with fingerprints for device tokens.
struct EventView: Sendable {
    private let caller: Caller

    init(_ caller: Caller) { self.caller = caller }

    /// The event as the caller may see it; nil when it may not.
    func shown(_ event: StoredEvent, type: String) -> [UInt8]? {
        if caller.seesAll { return event.json }
        guard case .object(var object)? = try? JSONValue(parsing: event.json), isAllowed(object, type) else {
            return nil
        }
        for name in ["recipient", "token"] where !caller.isAdministrator {
            guard let text = object[name]?.stringValue, let recipient = Recipient(storedForm: text) else { continue }
            object[name] = .string(recipient.shownForm)
        }
        return JSONValue.object(object).bytes
    }

    private func isAllowed(_ object: JSONObject, _ type: String) -> Bool {
        switch type.prefix(while: { $0 != "." }) {
        case "notification", "delivery":
            // Only administrators of the whole gateway see notifications that were sent without a key.
            caller.maySee(sender: object["caller"]?.stringValue ?? "")
        case "device", "operation": caller.has(.devices) && isOfAllowedBackend(object)
        case "backend": isOfAllowedBackend(object)
        default: false
        }
    }

    private func isOfAllowedBackend(_ object: JSONObject) -> Bool {
        caller.view == nil || object["backend"]?.stringValue.map(caller.mayUse(backend:)) ?? false
    }
}

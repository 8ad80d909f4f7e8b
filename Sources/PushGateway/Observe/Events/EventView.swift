internal import PushCore
internal import PushQueue

/// What of the events a caller may see: an administrator everything; others what is about notifications that were sent with
/// their key, with fingerprints for device tokens, and what is about backends they may use.
struct EventView: Sendable {
    private let caller: Caller

    init(_ caller: Caller) { self.caller = caller }

    /// The event as the caller may see it; nil when it may not.
    func shown(_ event: StoredEvent, type: String) -> [UInt8]? {
        if caller.isAdministrator { return event.json }
        guard case .object(var object)? = try? JSONValue(parsing: event.json), isAllowed(object, type) else {
            return nil
        }
        for name in ["recipient", "token"] {
            guard let text = object[name]?.stringValue, let recipient = Recipient(storedForm: text) else { continue }
            object[name] = .string(recipient.shownForm)
        }
        return JSONValue.object(object).bytes
    }

    private func isAllowed(_ object: JSONObject, _ type: String) -> Bool {
        switch type.prefix(while: { $0 != "." }) {
        case "notification", "delivery":
            // What was sent before there were keys is visible to administrators only.
            !caller.name.isEmpty && object["caller"]?.stringValue == caller.name
        case "device", "operation": caller.has(.devices) && isOfAllowedBackend(object)
        case "backend": isOfAllowedBackend(object)
        default: false
        }
    }

    private func isOfAllowedBackend(_ object: JSONObject) -> Bool {
        caller.backends == nil || object["backend"]?.stringValue.map(caller.mayUse) ?? false
    }
}

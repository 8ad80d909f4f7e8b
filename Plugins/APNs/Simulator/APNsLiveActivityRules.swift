internal import ChaparCore

/// Checks the payload of a Live Activity push against Apple's documentation.
///
/// The service reports nothing about such a payload, and a device drops a bad one in silence. The simulator refuses it
/// in the strict form only, so that a mistake is seen. Written from Apple's text and not from the plugin.
enum APNsLiveActivityRules {
    private enum Need {
        case required
        case optional
        case forbidden
    }

    /// The need for each key of `aps`, by event; other keys are not checked.
    private static let events: [String: [String: Need]] = [
        "start": [
            "content-state": .required, "attributes-type": .required, "attributes": .required, "alert": .required,
            "input-push-token": .optional, "input-push-channel": .optional, "dismissal-date": .forbidden,
        ],
        "update": [
            "content-state": .required, "attributes-type": .forbidden, "attributes": .forbidden, "alert": .optional,
            "input-push-token": .forbidden, "input-push-channel": .forbidden, "dismissal-date": .forbidden,
        ],
        "end": [
            "content-state": .optional, "attributes-type": .forbidden, "attributes": .forbidden, "alert": .optional,
            "input-push-token": .forbidden, "input-push-channel": .forbidden, "dismissal-date": .optional,
        ],
    ]

    /// Checks a body; a broadcast can update and end activities, but not start one.
    static func check(_ body: [UInt8], isBroadcast: Bool) throws(APNsRefusal) {
        guard let aps = (try? JSONValue(parsing: body))?["aps"]?.objectValue,
            aps["timestamp"]?.integerValue != nil,
            let event = aps["event"]?.stringValue, let keys = events[event], !isBroadcast || event != "start"
        else { throw .badRequestPayload }
        for (key, need) in keys {
            switch (need, aps[key]) {
            case (.required, nil), (.forbidden, _?): throw .badRequestPayload
            case (_, let value?):
                guard hasRightType(key, value) else { throw .badRequestPayload }
            case (_, nil): break
            }
        }
    }

    private static func hasRightType(_ key: String, _ value: JSONValue) -> Bool {
        switch key {
        case "content-state", "attributes", "alert": value.objectValue != nil
        case "dismissal-date": value.integerValue != nil
        case "input-push-token": value == 1
        default: value.stringValue != nil
        }
    }
}

import ChaparCore

/// The id by which v3 takes a message back: its `push-type` and its `notifyId`, written as `0/3114932`.
struct HMSTrackingID: Sendable, CustomStringConvertible {
    /// The message types that Huawei takes back: alerts and texts to be spoken.
    private static let pushTypes: Set<Int64> = [0, 2]

    let pushType: Int64
    let notifyID: Int64

    private init?(pushType: Int64, notifyID: Int64) {
        guard Self.pushTypes.contains(pushType), (0...Int64(Int32.max)).contains(notifyID) else { return nil }
        self.pushType = pushType
        self.notifyID = notifyID
    }

    /// Makes the id of a message; nil for one that Huawei cannot take back.
    init?(_ pushType: Int64, _ tree: JSONObject) {
        guard let id = tree["payload"]?["notification"]?["notifyId"]?.integerValue else { return nil }
        self.init(pushType: pushType, notifyID: id)
    }

    /// Reads an id; nil for any other text.
    init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let pushType = Int64(parts[0]), let notifyID = Int64(parts[1]) else { return nil }
        self.init(pushType: pushType, notifyID: notifyID)
    }

    var description: String { "\(pushType)/\(notifyID)" }
}

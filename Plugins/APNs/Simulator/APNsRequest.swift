internal import ChaparCore
internal import ChaparSimulator

/// A request with the fields that APNs reads, found in one pass over the header list.
struct APNsRequest {
    var method: String
    var path: String
    var body: [UInt8]
    var headers: [HTTPHeader]
    var apnsID: String?
    var requestID: String?
    var authorization: String?
    var topic: String?
    var pushType: String?
    var priority: String?
    var expiration: String?
    var collapseID: String?
    var channelID: String?
    var hasDuplicate = false

    init(method: String, path: String, headers: [HTTPHeader], body: [UInt8] = []) {
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        for header in headers {
            let isRepeated: Bool
            switch header.name {
            case "authorization": isRepeated = Self.set(&authorization, header.value)
            case "apns-id": isRepeated = Self.set(&apnsID, header.value)
            case "apns-topic": isRepeated = Self.set(&topic, header.value)
            case "apns-push-type": isRepeated = Self.set(&pushType, header.value)
            case "apns-priority": isRepeated = Self.set(&priority, header.value)
            case "apns-expiration": isRepeated = Self.set(&expiration, header.value)
            case "apns-collapse-id": isRepeated = Self.set(&collapseID, header.value)
            case "apns-channel-id": isRepeated = Self.set(&channelID, header.value)
            case "apns-request-id": isRepeated = Self.set(&requestID, header.value)
            default: isRepeated = false
            }
            if isRepeated { hasDuplicate = true }
        }
    }

    init(_ stream: HTTP2Stream) {
        self.init(method: stream.method, path: stream.path, headers: stream.headers, body: stream.body)
    }

    /// The path after `/3/device/`; nil for another path.
    var deviceToken: Substring? {
        guard path.hasPrefix("/3/device") else { return nil }
        let rest = path.dropFirst(9)
        if rest.isEmpty { return rest }
        return rest.first == "/" ? rest.dropFirst() : nil
    }

    /// Sets a field; returns whether it had a value before.
    private static func set(_ field: inout String?, _ value: String) -> Bool {
        defer { field = value }
        return field != nil
    }
}

/// The push types of Apple's `apns-push-type`, with their rules for the topic.
enum APNsPushType: String, CaseIterable {
    case alert
    case background
    case controls
    case complication
    case fileprovider
    case liveactivity
    case location
    case mdm
    case pushtotalk
    case voip
    case widgets

    /// The suffix of the topic after the bundle id; nil when the topic is a bundle id, or follows no rule (`mdm`).
    var topicSuffix: String? {
        switch self {
        case .alert, .background, .mdm: nil
        case .controls: ".push-type.controls"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .voip: ".voip"
        case .widgets: ".push-type.widgets"
        }
    }

    /// Whether it needs a provider token, even with a client certificate.
    var needsProviderToken: Bool { self == .location || self == .liveactivity }

    private static let suffixes = allCases.compactMap(\.topicSuffix)

    /// Returns a topic without the suffix of its push type.
    static func bundleID(of topic: String) -> String {
        for suffix in suffixes where topic.hasSuffix(suffix) { return String(topic.dropLast(suffix.count)) }
        return topic
    }

    /// Returns whether a topic has the form that this type requires.
    func accepts(topic: String, bundleID: String) -> Bool {
        switch self {
        case .mdm: true
        default:
            topic.utf8.count == bundleID.utf8.count + (topicSuffix?.utf8.count ?? 0)
                && topic.hasSuffix(topicSuffix ?? "")
        }
    }
}

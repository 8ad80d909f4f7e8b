internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// An answer of channel management: a status, the channel it concerns, a body.
struct APNsManagementAnswer {
    var status: Int
    var channelID: String?
    var body: [UInt8] = []
}

/// Channel management and broadcast, as Apple lays them out. Apple documents no order of checks here; this one
/// follows that of device sends.
extension APNsRules {
    /// Checks a call to a management listener, and carries it out.
    func manage(
        _ request: APNsRequest,
        now: Date,
        connection: inout APNsConnectionState,
        state: inout APNsState
    ) throws(APNsRefusal) -> APNsManagementAnswer {
        if let id = request.requestID, !UUIDText.isValid(id) { throw .badMessageID }
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "1", parts[2] == "apps", !parts[3].isEmpty else {
            throw .badPath
        }
        let isList = parts[4] == "all-channels"
        guard isList || parts[4] == "channels" else { throw .badPath }
        guard (isList ? ["GET"] : ["POST", "GET", "DELETE"]).contains(request.method) else { throw .methodNotAllowed }
        if request.hasDuplicate { throw .duplicateHeaders }
        let bundleID = String(parts[3])
        try authenticate(request, bundleID: bundleID, now: now, connection: &connection, state: &state)
        if isList { return list(bundleID, state) }
        if request.method == "POST" { return try create(request, bundleID, state: &state) }
        let (id, channel) = try existingChannel(request, bundleID, state)
        if request.method == "GET" {
            let body: JSONValue = [
                "message-storage-policy": .integer(channel.storagePolicy), "push-type": "LiveActivity",
            ]
            return APNsManagementAnswer(status: 200, channelID: id, body: body.bytes)
        }
        state.channels[environment, bundleID, id] = nil
        return APNsManagementAnswer(status: 204, channelID: id)
    }

    /// Checks a broadcast on a send listener.
    func checkBroadcast(
        _ request: APNsRequest,
        now: Date,
        connection: inout APNsConnectionState,
        state: inout APNsState
    ) throws(APNsRefusal) -> APNsPush {
        for id in [request.apnsID, request.requestID] {
            if let id, !UUIDText.isValid(id) { throw .badMessageID }
        }
        guard request.method == "POST" else { throw .methodNotAllowed }
        if request.hasDuplicate { throw .duplicateHeaders }
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[3] == "apps", !parts[4].isEmpty else { throw .badPath }
        let bundleID = String(parts[4])
        if let priority = request.priority, !["1", "5", "10"].contains(priority) { throw .badPriority }
        try Self.checkExpiration(request)
        guard let type = request.pushType else { throw .missingPushType }
        guard type.lowercased() == APNsPushType.liveactivity.rawValue else { throw .invalidPushType }
        try authenticate(request, bundleID: bundleID, now: now, connection: &connection, state: &state)
        let (_, channel) = try existingChannel(request, bundleID, state)
        if channel.storagePolicy == 0, let expiration = request.expiration, Int64(expiration) != 0 {
            throw .badExpirationDate
        }
        try checkPayload(request, limit: 5120)
        if options.isStrict { try APNsLiveActivityRules.check(request.body, isBroadcast: true) }
        return APNsPush(token: "", topic: bundleID + (APNsPushType.liveactivity.topicSuffix ?? ""), pushType: type)
    }

    private func authenticate(
        _ request: APNsRequest,
        bundleID: String,
        now: Date,
        connection: inout APNsConnectionState,
        state: inout APNsState
    ) throws(APNsRefusal) {
        // The path has the plain bundle id.
        guard APNsPushType.bundleID(of: bundleID) == bundleID else { throw .topicDisallowed }
        let token = state.providerToken(request.authorization, connection: &connection, isStrict: options.isStrict)
        if let certificate = connection.certificate {
            guard certificate.topics.contains(bundleID) else { throw .topicMismatch }
        }
        try authenticate(request, token, now: now, connection: &connection, state: state)
        if connection.certificate == nil, let token, let key = state.keys[token.keyID] {
            guard key.topics.allows(bundleID, bundleID: bundleID) else { throw .topicMismatch }
        }
        if let enabled = options.broadcastBundleIDs, !enabled.contains(bundleID) { throw .featureNotEnabled }
    }

    private func list(_ bundleID: String, _ state: APNsState) -> APNsManagementAnswer {
        let ids = state.channels.ids(environment, bundleID).map(JSONValue.string)
        let body: JSONValue = ["channels": .array(ids)]
        return APNsManagementAnswer(status: 200, body: body.bytes)
    }

    private func create(
        _ request: APNsRequest,
        _ bundleID: String,
        state: inout APNsState
    ) throws(APNsRefusal) -> APNsManagementAnswer {
        if request.body.isEmpty { throw .payloadEmpty }
        if request.body.count > 4096 { throw .payloadTooLarge }
        guard let body = try? JSONValue(parsing: request.body), let fields = body.objectValue else {
            throw .badRequestPayload
        }
        guard fields.allSatisfy({ ["push-type", "message-storage-policy"].contains($0.name) }) else {
            throw .badRequestParameters
        }
        guard let type = body["push-type"] else { throw .missingPushType }
        guard type.stringValue == "LiveActivity" else { throw .invalidPushType }
        guard let policy = body["message-storage-policy"]?.integerValue, policy == 0 || policy == 1 else {
            throw .badRequestParameters
        }
        guard state.channels.count(environment, bundleID) < options.maximumChannels else { throw .cannotCreateChannel }
        var bytes: [UInt8] = []
        for _ in 0..<2 { withUnsafeBytes(of: state.random.next()) { bytes += $0 } }
        let id = Data(bytes).base64EncodedString()
        state.channels[environment, bundleID, id] = APNsChannels.Channel(storagePolicy: policy)
        return APNsManagementAnswer(status: 201, channelID: id)
    }

    private func existingChannel(
        _ request: APNsRequest,
        _ bundleID: String,
        _ state: APNsState
    ) throws(APNsRefusal) -> (String, APNsChannels.Channel) {
        guard let id = request.channelID, !id.isEmpty else { throw .missingChannelID }
        guard Data(base64Encoded: id) != nil else { throw .badChannelID }
        guard let channel = state.channels[environment, bundleID, id] else { throw .channelNotRegistered }
        return (id, channel)
    }
}

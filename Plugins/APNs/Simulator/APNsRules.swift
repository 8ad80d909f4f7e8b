internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The state of a connection that the rules depend on.
struct APNsConnectionState {
    /// The client's certificate, once TLS has checked it.
    var certificate: APNsProviderCertificate?
    /// Whether the client showed a certificate that is no provider certificate.
    var hasForeignCertificate = false
    /// The key to which the first accepted push bound the connection, with its topics at that time.
    var bound: (teamID: String, keyID: String, topics: APNsTopics)?
    /// The provider token in use, and the time from which it is used.
    var token: (issuedAt: Int64, since: Date)?
    /// Whether one expired provider token makes every later request fail likewise.
    var wedgesAfterExpiry = false
    /// Whether the connection refuses everything as expired.
    var isWedged = false
    /// The last `authorization` value with its parsed token: a connection seldom changes it.
    var lastAuthorization: (text: String, generation: Int, token: APNsProviderToken?)?
}

/// A push that passed the rules.
struct APNsPush {
    var token: String
    var topic: String
    var pushType: String?
    /// The delay of the answer, for a magic slow token.
    var delay: Duration = .zero
}

/// Decides how APNs would answer a device send, in the order of the reasons of ``APNsRefusal``.
///
/// A pure value: time is a parameter, the known devices and topics and the connection are `inout` state, and the
/// verdict is a returned push or a thrown refusal. It sends nothing and counts nothing.
struct APNsRules {
    let environment: APNsEnvironment
    var options = APNsRuleOptions()

    /// Checks one request.
    func check(
        _ request: APNsRequest,
        now: Date,
        connection: inout APNsConnectionState,
        state: inout APNsState
    ) throws(APNsRefusal) -> APNsPush {
        // 1 and 2: the envelope.
        if let id = request.apnsID, !UUIDText.isValid(id) { throw .badMessageID }
        guard request.method == "POST" else { throw .methodNotAllowed }
        if request.hasDuplicate { throw .duplicateHeaders }
        // 3 to 5: the headers and the path by themselves.
        let token = state.providerToken(request.authorization, connection: &connection, isStrict: options.isStrict)
        let topic = try checkedTopic(request, token: token, connection: connection, state: state)
        try checkHeaders(request)
        let device = try checkedDeviceToken(request)
        // 6: the sender.
        try authenticate(request, token, now: now, connection: &connection, state: state)
        // 7: the recipient.
        var push = APNsPush(token: device, topic: topic, pushType: request.pushType)
        push.delay = try checkDevice(device, topic: topic, now: now, state: &state)
        // 8: the content.
        try checkPayload(request, limit: request.pushType == "voip" ? 5120 : 4096)
        if options.isStrict, request.pushType == APNsPushType.liveactivity.rawValue {
            try APNsLiveActivityRules.check(request.body, isBroadcast: false)
        }
        if connection.bound == nil, let token, connection.certificate == nil, let key = state.keys[token.keyID] {
            connection.bound = (token.teamID, token.keyID, key.topics)
        }
        return push
    }

    // MARK: 3. The topic

    private func checkedTopic(
        _ request: APNsRequest,
        token: APNsProviderToken?,
        connection: APNsConnectionState,
        state: APNsState
    ) throws(APNsRefusal) -> String {
        let soleTopic = connection.certificate.flatMap { $0.topics.count == 1 ? $0.topics[0] : nil }
        guard let topic = request.topic ?? soleTopic, !topic.isEmpty else { throw .missingTopic }
        let bundleID = APNsPushType.bundleID(of: topic)
        if let certificate = connection.certificate {
            guard certificate.topics.contains(topic) || certificate.topics.contains(bundleID) else {
                throw .topicDisallowed
            }
        } else if let token {
            // A connection keeps the topics that its key had at the first accepted push.
            let bound = connection.bound.flatMap { $0.keyID == token.keyID ? $0.topics : nil }
            let topics = bound ?? state.keys[token.keyID]?.topics ?? .all
            guard topics.allows(topic, bundleID: bundleID) else { throw .topicDisallowed }
        }
        guard Self.isWellFormed(topic: topic) else { throw .badTopic }
        if let type = request.pushType.flatMap(APNsPushType.init(rawValue:)) {
            guard type.accepts(topic: topic, bundleID: bundleID) else { throw .badTopic }
        }
        return topic
    }

    static func isWellFormed(topic: String) -> Bool {
        var previous = UInt8(ascii: ".")  // A dot must not begin, end or follow another.
        for byte in topic.utf8 {
            switch byte {
            case UInt8(ascii: "."):
                if previous == byte { return false }
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                break
            default: return false
            }
            previous = byte
        }
        return previous != UInt8(ascii: ".") && topic.utf8.count <= 255
    }

    // MARK: 4. The other headers

    /// Checks the headers that are present, since Apple documents a default for each.
    private func checkHeaders(_ request: APNsRequest) throws(APNsRefusal) {
        if let id = request.collapseID, id.utf8.count > 64 { throw .badCollapseID }
        if let priority = request.priority, !["1", "5", "10"].contains(priority) { throw .badPriority }
        try Self.checkExpiration(request)
        guard let name = request.pushType else { return }
        guard let type = APNsPushType(rawValue: name) else { throw .invalidPushType }
        switch type {
        case .background:
            if request.priority == "10" { throw .badPriority }
        case .pushtotalk:
            if let priority = request.priority, priority != "10" { throw .badPriority }
            if let expiration = request.expiration, Int64(expiration) != 0 { throw .badExpirationDate }
        default: break
        }
    }

    static func checkExpiration(_ request: APNsRequest) throws(APNsRefusal) {
        guard let expiration = request.expiration else { return }
        guard let seconds = Int64(expiration), seconds >= 0 else { throw .badExpirationDate }
    }

    // MARK: 5. The path

    /// Returns the device token in lower case.
    private func checkedDeviceToken(_ request: APNsRequest) throws(APNsRefusal) -> String {
        guard let token = request.deviceToken else { throw .badPath }
        if token.isEmpty { throw .missingDeviceToken }
        guard let normal = HexText.normalised(token) else { throw .badDeviceToken }
        return normal
    }

    // MARK: 7. The device

    private func checkDevice(
        _ token: String,
        topic: String,
        now: Date,
        state: inout APNsState
    ) throws(APNsRefusal) -> Duration {
        var delay = Duration.zero
        var isKnown = false
        if options.honoursMagicTokens, let magic = APNsMagicToken(token) {
            delay = try state.answer(to: magic, token: token, now: now, options: options)
            isKnown = true
        }
        if let device = state.devices[environment]?[token] {
            if let wanted = device.topic, wanted != topic, wanted != APNsPushType.bundleID(of: topic) {
                throw .deviceTokenNotForTopic
            }
            switch device.state {
            case .registered: break
            case .unregistered(let since): throw .unregistered(since: since)
            case .expired(let since): throw .expiredToken(since: since)
            }
        } else if !isKnown {
            let isElsewhere = APNsEnvironment.allCases.contains { state.devices[$0]?[token] != nil }
            guard options.acceptsAnyToken, !isElsewhere else { throw .badDeviceToken }
        }
        if let limit = options.pushesPerDevicePerMinute {
            guard state.countPush(to: token, now: now) <= limit else { throw .tooManyRequests }
        }
        return delay
    }

    // MARK: 8. The payload

    func checkPayload(_ request: APNsRequest, limit: Int) throws(APNsRefusal) {
        if request.body.isEmpty { throw .payloadEmpty }
        if request.body.count > limit { throw .payloadTooLarge }
        guard options.isStrict else { return }
        do {
            try JSONScanner.scan(request.body) { (scanner) throws(JSONSyntaxError) in
                guard try scanner.peek() == .object else { throw scanner.error("an object") }
                try scanner.skip()
            }
        } catch {
            throw .badRequestPayload
        }
    }
}

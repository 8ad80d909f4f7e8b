public import Foundation
public import ChaparCore

/// A client for Chabok's installations; an installation is a device of a user, with the device's push token.
///
/// The gateway's outbox registers and removes devices with this client. A program that embeds it can also list and
/// change installations. The gateway's store keeps the id that Chabok gave an installation.
public struct ChabokInstallations: DeviceRegistrar {
    /// An installation as Chabok shows it.
    public struct Installation: Sendable, Hashable {
        /// Its id.
        public var id: String
        /// The user; nil for a guest.
        public var user: String?
        /// `ios`, `android`, `web` or `windows`.
        public var deviceType: String
        /// The token at the device's own push service; nil for placeholders and for refused ones.
        public var deviceToken: String?
        /// The app's version.
        public var clientVersion: String?
        /// Its tags.
        public var tags: [String]
        /// Its user's settings by channel.
        public var channels: [String: ChabokChannelSettings]
        /// When it was made.
        public var created: Date?
        /// The whole object.
        public var raw: JSONObject

        init?(_ json: JSONValue) {
            guard let raw = json.objectValue, let id = ChabokAnswer.text(raw["id"]) else { return nil }
            self.id = id
            self.raw = raw
            user = ChabokAnswer.text(raw["userId"])
            deviceType = raw["deviceType"]?.stringValue ?? ""
            let token = ChabokAnswer.text(raw["deviceToken"])
            let isAllowed = raw["tokenStatus"]?.stringValue.map { $0 == "ALLOWED" } ?? true
            let isPlaceholder = token == "NOT_EXIST" || token == "disabled"
            deviceToken = isAllowed && !isPlaceholder ? token : nil
            clientVersion = raw["clientVersion"]?.stringValue
            tags = (raw["tags"]?.arrayValue ?? []).compactMap(\.stringValue)
            created = ChabokTime.read(raw["created"])
            channels = [:]
            for (name, value) in raw["notificationSettings"]?.objectValue ?? JSONObject() {
                channels[name] = ChabokChannelSettings(value)
            }
        }
    }

    /// The tag of an installation whose user has not logged in.
    public static let guestTag = "CHABOK_GUEST"

    let client: ChabokClient
    let records: ChabokRecords
    let stream: ChabokEventStream

    // MARK: Registering

    /// Creates the installation, edits it, or sends its new token alone; makes no call when nothing has changed.
    public func register(_ device: DeviceRecord) async throws(PushError) -> String {
        let known = try await records.load(device.id)
        do throws(PushError) {
            let fields = try fields(device)
            if let known, known.fields == fields { return known.installation }
            let id = try await write(fields, known, device)
            try await records.save(ChabokRecord(installation: id, user: device.user, fields: fields), of: device.id)
            stream.send(.registered(user: device.user, installation: id))
            return id
        } catch {
            if error.code != .unavailable, error.code != .rateLimited {
                let installation = known?.installation
                stream.send(
                    .registrationFailed(message: error.message, user: device.user, installation: installation)
                )
            }
            throw error
        }
    }

    /// Sends the token alone when nothing else has changed, else all fields; creates an installation that Chabok has
    /// forgotten.
    private func write(
        _ fields: JSONObject,
        _ known: ChabokRecord?,
        _ device: DeviceRecord
    ) async throws(PushError) -> String {
        guard let known else { return try await create(fields) }
        var old = known.fields
        old["deviceToken"] = fields["deviceToken"]
        let answer: ChabokAnswer
        if old == fields {
            var body: JSONObject = [
                "installationId": .string(known.installation),
                "createdAt": .integer(client.time.now.millisecondsSince1970),
            ]
            for name in ["deviceToken", "userId", "deviceType"] { body[name] = fields[name] }
            answer = try await client.call("POST", "/installations/updateDeviceToken", .object(body), accepting: [404])
        } else {
            let path = try ChabokClient.path("installations", known.installation)
            var body = fields
            if known.fields["isGuest"] == true, body["isGuest"] == nil {
                (body["isGuest"], body["tags"]) = (false, [])  // A guest has logged in.
            }
            answer = try await client.call("PUT", path, .object(body), accepting: [404])
        }
        return answer.status == 404 ? try await create(fields) : known.installation
    }

    private func create(_ fields: JSONObject) async throws(PushError) -> String {
        let answer = try await client.call("POST", "/installations", .object(fields), isRepeatable: false)
        guard let id = ChabokAnswer.text(answer.json?["id"]) else {
            throw PushError(.badAnswer, "Chabok's answer has no installation id", reason: "bad_answer")
        }
        return id
    }

    private func fields(_ device: DeviceRecord) throws(PushError) -> JSONObject {
        guard let appID = client.options.appID else {
            throw PushError(.invalidRequest, "registering needs app_id in the configuration", reason: "app_id_missing")
        }
        guard let token = device.token else {
            throw PushError(.invalidRequest, "the device has no token", reason: "token_missing")
        }
        var fields: JSONObject = [
            "appId": .string(appID), "deviceType": .string(token.service.platform),
            "deviceToken": .string(token.value), "tokenStatus": "ALLOWED",
            "subscriptions": [.string(client.options.commonChannel)],
        ]
        if let user = device.user {
            if let problem = ChabokUserID.problem(user, minimum: client.options.minimumUserIDLength) {
                throw PushError(.invalidRequest, problem, reason: "bad_user")
            }
            fields["userId"] = .string(user)
        } else {
            fields["isGuest"] = true
            // Tags of a user belong to the user, see ``ChabokUsers``; only a guest's belong to the installation.
            fields["tags"] = .array((device.tags.map(ChabokSegment.tag) + [Self.guestTag]).map { .string($0) })
        }
        let names = [
            ("app_version", "clientVersion"), ("os_version", "osVersion"), ("model", "deviceModel"),
            ("time_zone", "timeZone"),
        ]
        for (own, theirs) in names { if let value = device.attributes[own] { fields[theirs] = value } }
        return fields
    }

    /// Deletes the installation; one that is gone is no error.
    public func remove(_ device: DeviceRecord) async throws(PushError) {
        guard let known = try await records.load(device.id) else { return }
        let path = try ChabokClient.path("installations", known.installation)
        _ = try await client.call("DELETE", path, accepting: [404])
        try await records.save(nil, of: device.id)
    }

    /// Sets the channel settings of the user of an installation; other channels keep their settings.
    ///
    /// The client library has the field `notificationSettings`. Chapar assumes that the field has `sound` and `alert`
    /// for each channel.
    public func setChannels(
        _ channels: [String: ChabokChannelSettings],
        of installation: String
    ) async throws(PushError) {
        guard let known = try await fetch(installation) else {
            throw PushError(.invalidRequest, "Chabok knows no such installation", reason: "unknown_installation")
        }
        var settings = JSONObject()
        for (name, value) in known.channels.merging(channels, uniquingKeysWith: { $1 }).sorted(by: { $0.key < $1.key })
        {
            settings[name] = value.json
        }
        let path = try ChabokClient.path("installations", installation)
        _ = try await client.call("PUT", path, ["notificationSettings": .object(settings)])
    }

    // MARK: Looking

    /// Returns an installation; nil when Chabok does not know it.
    public func fetch(_ id: String) async throws(PushError) -> Installation? {
        let answer = try await client.call("GET", ChabokClient.path("installations", "fetchById", id), accepting: [404])
        guard answer.status != 404 else { return nil }
        guard let found = answer.json.flatMap(Installation.init) else {
            throw PushError(.badAnswer, "Chabok's answer shows no installation", reason: "bad_answer")
        }
        return found
    }

    /// Returns all installations of a user; none for a user that Chabok does not know.
    public func fetch(ofUser user: String) async throws(PushError) -> [Installation] {
        let path = try ChabokClient.path("installations", "fetchByUserId", user)
        let answer = try await client.call("GET", path, accepting: [404])
        guard answer.status != 404 else { return [] }
        guard let list = answer.json?.arrayValue else {
            throw PushError(.badAnswer, "Chabok's answer is no list of installations", reason: "bad_answer")
        }
        return list.compactMap(Installation.init)
    }

    /// Returns the device tokens of a user that other plugins can send to: Apple's and Firebase's.
    public func deviceTokens(ofUser user: String) async throws(PushError) -> [DeviceToken] {
        try await fetch(ofUser: user).compactMap { installation in
            guard let token = installation.deviceToken else { return nil }
            return switch installation.deviceType {
            case "ios": DeviceToken(token, service: .iOSAPNs)
            case "android": DeviceToken(token, service: .androidFirebase)
            default: nil
            }
        }
    }

    /// Returns all tags of the app.
    public func tags() async throws(PushError) -> [String] { try await names("/installations/tags") }

    /// Returns the tags of a user.
    public func tags(ofUser user: String) async throws(PushError) -> [String] {
        try await names(ChabokClient.path("installations", "tags", user))
    }

    /// Returns all channels of the app.
    public func channels() async throws(PushError) -> [String] { try await names("/installations/channels") }

    private func names(_ path: String) async throws(PushError) -> [String] {
        let answer = try await client.call("GET", path)
        guard let list = answer.json?.arrayValue else {
            throw PushError(.badAnswer, "Chabok's answer is no list", reason: "bad_answer")
        }
        return list.compactMap(\.stringValue)
    }

    /// Returns the target of a device or an installation: its private channel, at the user who is logged in on it.
    func target(of recipient: Recipient) async throws(PushError) -> ChabokTarget {
        func refuse(_ reason: String, _ detail: String) -> ChabokTarget {
            .refused(Refusal(.token, reason: reason, detail: detail, advice: .never))
        }
        switch recipient {
        case .device(let id):
            guard let record = try await records.load(id) else {
                return refuse("not_registered", "The device was never registered with Chabok.")
            }
            guard let user = record.user else { return refuse("guest", "No user is logged in on the device.") }
            return .installation(record.installation, of: user)
        case .platformID(let id):
            guard let found = try await fetch(id) else {
                return refuse("unknown_installation", "Chabok knows no such installation.")
            }
            guard let user = found.user else { return refuse("guest", "No user is logged in on the device.") }
            return .installation(id, of: user)
        default: return refuse("unsupported", "Only devices and installations have a private channel.")
        }
    }
}

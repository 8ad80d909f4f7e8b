import Foundation
import ChaparCore

/// Builds the calls of one `send`: encodes each request once, and adds the recipient's own values to each call.
///
/// Messages that can be found faulty without Apple are refused here and never sent. Nothing here waits.
struct APNsBatch {
    /// The recipient of a call's outcome, with the properties that decide its meaning.
    struct Slot: Sendable {
        var request: Int32
        var recipient: Int32
        var isOwnTopic: Bool
        var isBroadcast = false
        var isRepeatHarmful: Bool

        func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: Int(request), recipient: Int(recipient), outcome: outcome)
        }
    }

    /// Calls with their slots, at the same places.
    struct Calls {
        var calls: [HTTPCall] = []
        var slots: [Slot] = []

        mutating func reserve(_ count: Int) {
            calls.reserveCapacity(count)
            slots.reserveCapacity(count)
        }

        mutating func append(_ call: HTTPCall, _ slot: Slot) {
            calls.append(call)
            slots.append(slot)
        }
    }

    let started: Date
    private(set) var deviceCalls = Calls()
    private(set) var channelCalls = Calls()
    /// The reports of recipients that need no request: refusals and dry runs.
    private(set) var refused: [DeliveryReport] = []
    /// The shared parts of the last usual request, for the next request that is like it.
    private var usual: Shared?
    private let templates: APNsTemplates
    private let options: APNsOptions
    private let storage: (String) -> ChannelStorage?
    private let now: Int64

    /// Makes an empty batch; `storage` returns the storage of a channel, nil where that is not known.
    init(
        started: Date,
        room: Int,
        templates: APNsTemplates,
        options: APNsOptions,
        storage: @escaping (String) -> ChannelStorage?
    ) {
        self.started = started
        self.templates = templates
        self.options = options
        self.storage = storage
        now = Int64(clamping: started.timeIntervalSince1970)
        deviceCalls.reserve(room)
    }

    /// The parts that all recipients of a request share; a class, since it is handed on for each recipient.
    private final class Shared {
        let headers: APNsHeaders
        let overrides: APNsOverrides?
        let template: HTTPCallTemplate
        let expiration: HTTPHeader?
        let collapseID: HTTPHeader?
        let isRepeatHarmful: Bool

        init(_ headers: APNsHeaders, _ overrides: APNsOverrides?, _ template: HTTPCallTemplate, _ expiration: String?) {
            self.headers = headers
            self.overrides = overrides
            self.template = template
            self.expiration = expiration.map { HTTPHeader("apns-expiration", $0, .literal) }
            collapseID = headers.collapseID.map { HTTPHeader("apns-collapse-id", $0, .literal) }
            isRepeatHarmful = overrides?.isRepeatHarmful ?? false
        }
    }

    /// Adds the calls of a request.
    mutating func add(_ request: PushRequest, at index: Int) {
        guard request.remaining(at: now) != .over else {
            for place in request.recipients.indices { refuse(index, place, .expired) }
            return
        }
        let notification = request.notification
        let overrides =
            notification.overrides.isEmpty
            ? nil : notification.overrides[APNsBackend.kind.rawValue].map { APNsOverrides($0) }
        var payloads = PayloadCache()
        var shared: [Recipient.Form: Result<Shared, MessageFault>] = [:]
        var device: Result<Shared, MessageFault>?
        for (place, addressee) in request.recipients.enumerated() {
            let form = addressee.recipient.form
            let common: Result<Shared, MessageFault>
            if form == .token, let device {
                common = device
            } else {
                common = shared[form] ?? share(request, overrides, form)
                if form == .token { device = common } else { shared[form] = common }
            }
            switch common {
            case .failure(let fault): refuse(index, place, fault.refusal)
            case .success(let shared): add(addressee, index, place, notification, shared, &payloads)
            }
        }
    }

    private mutating func add(
        _ addressee: Addressee,
        _ index: Int,
        _ place: Int,
        _ notification: PushNotification,
        _ shared: Shared,
        _ payloads: inout PayloadCache
    ) {
        let form = addressee.recipient.form
        let body = payloads.payload(notification, addressee.language, shared.headers.pushType, shared.overrides)
        if let fault = APNsCheck.tooLarge(body.count, shared.headers, form) {
            return refuse(index, place, MessageFault(fault).refusal)
        }
        var slot = Slot(
            request: Int32(clamping: index),
            recipient: Int32(clamping: place),
            isOwnTopic: shared.headers.isOwnTopic,
            isRepeatHarmful: shared.isRepeatHarmful
        )
        switch addressee.recipient {
        case .token(let token) where token.service == .iOSAPNs:
            guard let path = APNsPath.device(token.value) else { return refuse(index, place, Self.malformed(started)) }
            if notification.isDryRun { return dryRun(slot) }
            let id = addressee.messageID.description
            deviceCalls.append(
                HTTPCall(shared.template, path: path, headers: fields(id, shared), body: body),
                slot
            )
        case .platformID(let channel) where options.hasProviderToken:
            guard APNsPath.isChannel(channel) else { return refuse(index, place, Self.malformedChannel) }
            if notification.isDryRun { return dryRun(slot) }
            slot.isBroadcast = true
            slot.isOwnTopic = true
            channelCalls.append(
                HTTPCall(
                    shared.template,
                    path: "/4/broadcasts/apps/\(options.topic)",
                    headers: channelFields(channel, shared),
                    body: body
                ),
                slot
            )
        default:
            refuse(index, place, Self.unsupported(addressee.recipient))
        }
    }

    /// Returns the fields of one call to a device.
    ///
    /// A message that shows something always has a collapse id, by default its own id. If it goes out twice, the second
    /// copy replaces the first on the screen, which works only if the first had the collapse id too.
    private func fields(_ id: String, _ shared: Shared) -> [HTTPHeader] {
        var fields: [HTTPHeader] = []
        fields.reserveCapacity(3)
        fields.append(HTTPHeader("apns-id", id, .literal))
        if let expiration = shared.expiration { fields.append(expiration) }
        if let collapseID = shared.collapseID {
            fields.append(collapseID)
        } else if shared.headers.pushType.showsSomething {
            fields.append(HTTPHeader("apns-collapse-id", id, .literal))
        }
        return fields
    }

    private func channelFields(_ channel: String, _ shared: Shared) -> [HTTPHeader] {
        // A channel that stores nothing takes expiration 0 only, and 0 is always allowed.
        let storesNothing = storage(channel) == ChannelStorage.none
        let expiration = storesNothing ? nil : shared.expiration
        return [
            HTTPHeader("apns-channel-id", channel, .literal),
            expiration ?? HTTPHeader("apns-expiration", "0", .literal),
        ]
    }

    private mutating func share(
        _ request: PushRequest,
        _ overrides: APNsOverrides?,
        _ form: Recipient.Form
    ) -> Result<Shared, MessageFault> {
        if let usual, form == .token, APNsCheck.isPlain(request.notification), request.notification.priority == .high,
            usual.expiration?.value == APNsHeaders.expiration(of: request, now: now)
        {
            return .success(usual)
        }
        let headers = APNsHeaders(
            request.notification,
            overrides: overrides,
            form: form,
            topic: options.topic,
            hasProviderToken: options.hasProviderToken
        )
        let faults = APNsCheck.faults(request.notification, headers: headers, overrides: overrides, form: form)
        if let fault = faults.first { return .failure(MessageFault(fault)) }
        let template = form == .platformID ? templates.broadcast(for: headers) : templates.template(for: headers)
        let expiration = headers.expiration ?? APNsHeaders.expiration(of: request, now: now)
        let shared = Shared(headers, overrides, template, expiration)
        if form == .token, APNsCheck.isPlain(request.notification), request.notification.priority == .high {
            usual = shared
        }
        return .success(shared)
    }

    // MARK: Outcomes without a request

    private mutating func refuse(_ index: Int, _ place: Int, _ refusal: Refusal) {
        refused.append(DeliveryReport(request: index, recipient: place, outcome: .refused(refusal)))
    }

    private mutating func dryRun(_ slot: Slot) {
        refused.append(slot.report(.accepted(Acceptance(isForAudience: slot.isBroadcast, isDryRun: true))))
    }

    private static func malformed(_ started: Date) -> Refusal {
        Refusal(
            .token,
            reason: "malformed_token",
            detail: "Not an APNs token: it must be hexadecimal, with an even number of digits, 2 to 400.",
            advice: .never,
            invalidation: .init(asOf: started, isCertain: false)
        )
    }

    private static let malformedChannel = Refusal(
        .message,
        reason: "malformed_channel",
        detail: "Not a channel id: it is base64, as Apple gave it.",
        advice: .never
    )

    private static func unsupported(_ recipient: Recipient) -> Refusal {
        Refusal(
            .message,
            reason: "unsupported_recipient",
            detail:
                "APNs takes tokens of the service ios-apns and, with a key, channel ids: not \(recipient.form.rawValue)"
                + (recipient.form == .token ? " of another service." : "."),
            advice: .never
        )
    }
}

/// Encodes a payload once for each language.
private struct PayloadCache {
    private var only: [UInt8]?
    private var byLanguage: [String?: [UInt8]] = [:]

    mutating func payload(
        _ notification: PushNotification,
        _ language: String?,
        _ pushType: APNsPushType,
        _ overrides: APNsOverrides?
    ) -> [UInt8] {
        if let only { return only }
        if let known = byLanguage[language] { return known }
        let isLocalized = notification.isLocalized
        let bytes = APNsPayload.encode(notification, language: language, pushType: pushType, overrides: overrides)
        if isLocalized { byLanguage[language] = bytes } else { only = bytes }
        return bytes
    }
}

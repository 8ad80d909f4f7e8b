internal import Foundation
internal import ChaparCore

/// The requests to the service for one `send`: their bodies, and the recipients of each.
struct ServiceBatch {
    /// A recipient: its place in the send, and its message's id.
    struct Slot: Sendable {
        let request: Int
        let recipient: Int
        let id: String
        let isDryRun: Bool
        let isAudience: Bool

        func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: request, recipient: recipient, outcome: outcome)
        }
    }

    /// A request to the service.
    struct Chunk: Sendable {
        var slots: [Slot] = []
        var body: [UInt8] = []
        var messages = 0
    }

    /// The requests to make.
    private(set) var chunks: [Chunk] = []
    /// The reports of recipients that are refused without a request.
    private(set) var refused: [DeliveryReport] = []

    private let options: ServiceOptions
    private let now: Date
    private var slots: [Slot] = []
    private var messages: [[UInt8]] = []

    init(_ requests: [PushRequest], _ options: ServiceOptions, name: String, now: Date) {
        self.options = options
        self.now = now
        for (index, request) in requests.enumerated() { add(request, at: index, name) }
        close(name)
    }

    /// Adds a request: one message for each language of its recipients.
    private mutating func add(_ request: PushRequest, at index: Int, _ name: String) {
        guard request.remaining(now: now) != .over else {
            for position in request.recipients.indices {
                refused.append(DeliveryReport(request: index, recipient: position, outcome: .refused(.expired)))
            }
            return
        }
        let notification = request.notification
        let isLocalized = notification.isLocalized
        var languages: [String?] = []
        var positions: [String?: [Int]] = [:]
        for (position, addressee) in request.recipients.enumerated() {
            guard options.audience.contains(addressee.recipient) else {
                refuse(index, position, "unsupported_recipient", "The service takes no such recipients.")
                continue
            }
            if let refusal = options.audience.broadcast.refusal(of: addressee.recipient) {
                refused.append(DeliveryReport(request: index, recipient: position, outcome: .refused(refusal)))
                continue
            }
            let language = isLocalized ? addressee.language : nil
            if positions[language] == nil { languages.append(language) }
            positions[language, default: []].append(position)
        }
        var message = ServicePayload(notification, expiration: request.expiration)
        for language in languages {
            let texts = message.texts(in: language)
            let size = message.size(with: texts)
            guard size <= options.maximumMessageBytes else {
                for position in positions[language] ?? [] { refuse(index, position, "message_too_large", large(size)) }
                continue
            }
            let bytes = message.bytes(with: texts)
            var rest = (positions[language] ?? [])[...]
            while !rest.isEmpty {
                if slots.count >= options.batchSize { close(name) }
                let now = rest.prefix(options.batchSize - slots.count)
                rest = rest.dropFirst(now.count)
                add(bytes, request, index, now)
            }
        }
    }

    private mutating func add(_ message: [UInt8], _ request: PushRequest, _ index: Int, _ positions: ArraySlice<Int>) {
        var writer = JSONWriter(capacity: message.count + positions.count * 160)
        writer.beginObject()
        writer.name("message")
        writer.raw(message)
        writer.name("recipients")
        writer.beginArray()
        for position in positions {
            let addressee = request.recipients[position]
            ServicePayload.write(addressee, to: &writer)
            let isAudience =
                switch addressee.recipient {
                case .topic, .tags, .everyone: true
                case .token, .device, .user, .platformID: false
                }
            slots.append(
                Slot(
                    request: index,
                    recipient: position,
                    id: addressee.messageID.description,
                    isDryRun: request.notification.isDryRun,
                    isAudience: isAudience
                )
            )
        }
        writer.endArray()
        writer.endObject()
        messages.append(writer.bytes)
    }

    private mutating func close(_ name: String) {
        guard !slots.isEmpty else { return }
        var writer = JSONWriter(capacity: messages.reduce(128) { $0 + $1.count + 1 })
        writer.beginObject()
        writer.field("version", 1)
        writer.field("backend", name)
        writer.name("messages")
        writer.beginArray()
        for message in messages { writer.raw(message) }
        writer.endArray()
        writer.endObject()
        chunks.append(Chunk(slots: slots, body: writer.bytes, messages: messages.count))
        slots = []
        messages = []
    }

    private func large(_ bytes: Int) -> String {
        "The message has \(bytes) bytes; the service takes \(options.maximumMessageBytes)."
    }

    private mutating func refuse(_ index: Int, _ position: Int, _ reason: String, _ detail: String) {
        let refusal = Refusal(.message, reason: reason, detail: detail, advice: .never)
        refused.append(DeliveryReport(request: index, recipient: position, outcome: .refused(refusal)))
    }
}

import ChaparCore

/// One request to Huawei: a message, its target, and the recipients whose outcomes the answer decides.
struct HMSBatchRequest: Sendable {
    /// The recipient of an outcome.
    struct Slot: Sendable {
        var request: Int32
        var recipient: Int32
        /// The index of its token; 0 for an audience.
        var token: Int32
        var isReplay: Bool
    }

    let message: HMSPayload
    private(set) var target: HMSTarget
    private(set) var slots: [Slot]
    /// Whether an acceptance is followed by a receipt.
    let awaitsReceipts: Bool
    /// Whether it goes out with a credential that replaced a refused one.
    var isReauthorized = false

    init(_ message: HMSPayload, to target: HMSTarget, slots: [Slot], awaitsReceipts: Bool) {
        self.message = message
        self.target = target
        self.slots = slots
        self.awaitsReceipts = awaitsReceipts && !target.isAudience && !message.isDryRun
    }

    var isDryRun: Bool { message.isDryRun }

    /// The number of tokens; 1 for an audience.
    var count: Int { if case .tokens(let tokens) = target { tokens.count } else { 1 } }

    /// The request's body.
    var body: [UInt8] { message.body(to: target) }

    /// The same with normal urgency; nil when it has none higher.
    var demoted: HMSBatchRequest? {
        message.demoted.map {
            HMSBatchRequest($0, to: target, slots: slots, awaitsReceipts: awaitsReceipts, isReauthorized)
        }
    }

    /// Splits it into requests of at most `size` tokens.
    func split(_ size: Int) -> [HMSBatchRequest] {
        guard case .tokens(let tokens) = target, tokens.count > size else { return [self] }
        var parts: [[Slot]] = Array(repeating: [], count: (tokens.count + size - 1) / size)
        for slot in slots {
            var slot = slot
            let part = Int(slot.token) / size
            slot.token -= Int32(clamping: part * size)
            parts[part].append(slot)
        }
        return parts.enumerated().map { place, slots in
            let range = (place * size)..<min(tokens.count, (place + 1) * size)
            return HMSBatchRequest(
                message,
                to: .tokens(Array(tokens[range])),
                slots: slots,
                awaitsReceipts: awaitsReceipts,
                isReauthorized
            )
        }
    }

    private init(
        _ message: HMSPayload,
        to target: HMSTarget,
        slots: [Slot],
        awaitsReceipts: Bool,
        _ isReauthorized: Bool
    ) {
        self.init(message, to: target, slots: slots, awaitsReceipts: awaitsReceipts)
        self.isReauthorized = isReauthorized
    }

    // MARK: Reports

    /// Returns the same outcome for every recipient.
    func reports(_ outcome: DeliveryOutcome) -> [DeliveryReport] { reports(bySlot: { _ in outcome }) }

    /// Returns the outcome of each token, for every recipient that has it.
    func reports(byToken outcome: (Int) -> DeliveryOutcome) -> [DeliveryReport] {
        reports(bySlot: { outcome(Int($0.token)) })
    }

    /// Returns an outcome for each recipient.
    func reports(bySlot outcome: (Slot) -> DeliveryOutcome) -> [DeliveryReport] {
        slots.map { DeliveryReport(request: Int($0.request), recipient: Int($0.recipient), outcome: outcome($0)) }
    }
}

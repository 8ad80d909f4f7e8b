/// The place of a notification in its campaign.
///
/// The fan-out of a campaign writes a notification for each window of its audience. Events and answers about a delivery
/// of such a notification name the campaign, whose id the sender knows, and the delivery's place in the campaign.
public struct CampaignPart: Sendable, Hashable {
    /// The number of the campaign.
    public var campaign: Int64
    /// The place of the part's first delivery among those of the campaign, of which the first is 0.
    public var first: Int64
    /// Whether the attempts and events of accepted deliveries are kept too; else only those of failures.
    public var keepsAll: Bool

    /// Makes a place.
    public init(campaign: Int64, first: Int64, keepsAll: Bool) {
        (self.campaign, self.first, self.keepsAll) = (campaign, first, keepsAll)
    }

    /// The stored form: the campaign, the place, and a byte of flags.
    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        for number in [campaign, first] {
            Swift.withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
        }
        bytes.append(keepsAll ? 1 : 0)
        return bytes
    }

    /// Reads ``encoded``; nil when it is damaged.
    ///
    /// Further bytes are ignored: a newer program may have added them.
    init?(encoded bytes: ArraySlice<UInt8>) {
        guard bytes.count >= 17, let campaign = RecordCoding.number(in: bytes.prefix(8)),
            let first = RecordCoding.number(in: bytes.dropFirst(8).prefix(8)), let flags = bytes.dropFirst(16).first
        else { return nil }
        self.init(campaign: campaign, first: first, keepsAll: flags & 1 != 0)
    }
}

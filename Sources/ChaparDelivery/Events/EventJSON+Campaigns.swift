package import Foundation
package import ChaparCore
package import ChaparQueue

extension EventJSON {
    /// The subject of an event about a campaign.
    package enum CampaignEvent: String, Sendable {
        /// Windows were written; once a second at most.
        case progress
        /// It was paused, by a caller or by itself.
        case paused
        /// It goes on.
        case resumed
        /// It is over: finished, cancelled or expired, as its phase says.
        case ended
    }

    /// Returns an event about a campaign: `notification.progress`, `notification.paused`, `notification.resumed`,
    /// `notification.ended`.
    package static func campaign(_ campaign: Campaign, _ event: CampaignEvent, at time: Date) -> [UInt8] {
        var writer = JSONWriter(capacity: 320)
        writer.beginObject()
        begin(&writer, "notification." + event.rawValue, time)
        writer.field("notification", campaign.id.description)
        sender(campaign.caller, campaign.record, to: &writer)
        writer.name("audience")
        writer.beginObject()
        write(campaign, to: &writer)
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }

    /// Writes the fields about a campaign's progress, in events and in answers.
    ///
    /// The numbers are those of one commit: `matched` is always the sum of `reached` and of `skipped`.
    package static func write(_ campaign: Campaign, to writer: inout JSONWriter) {
        writer.field("name", campaign.name)
        writer.field("phase", campaign.phase.word)
        writer.field("paused", campaign.isPaused)
        if campaign.isPaused { writer.field("pause_reason", campaign.pauseReason) }
        writer.name("progress")
        writer.double((campaign.progress * 10_000).rounded(.down) / 10_000)
        writer.field("windows", Int(clamping: campaign.windows))
        writer.field("matched", Int(clamping: campaign.matched))
        writer.field("reached", Int(clamping: campaign.reached))
        writer.field("enqueued", Int(clamping: campaign.enqueued))
        writer.name("skipped")
        writer.beginObject()
        for (cause, count) in campaign.skipped.sorted(by: { $0.key < $1.key }) {
            writer.name(cause)
            writer.integer(Int(clamping: count))
        }
        writer.endObject()
    }
}

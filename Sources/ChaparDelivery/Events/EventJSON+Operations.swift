internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// Events about platform calls for devices, `operation.done`, `operation.retry`, `operation.failed`, and about notices
/// of backends, `backend.notice`.
extension EventJSON {
    /// Returns the event of an attempt at an operation.
    static func operation(
        _ claim: ClaimedEntry,
        backend: String,
        _ report: OperationReport,
        at time: Date
    ) -> [UInt8] {
        let operation = claim.operation
        var writer = JSONWriter(capacity: 384)
        writer.beginObject()
        begin(&writer, "operation." + report.outcome.rawValue, time)
        func text(_ name: StaticString, _ value: String?) {
            guard let value else { return }
            writer.name(name)
            writer.string(value)
        }
        text("operation", operation.id.uuidString.lowercased())
        text("kind", operation.kind.rawValue)
        text("backend", backend)
        text("device", operation.device)
        text("user", operation.user)
        writer.field("attempt", claim.attempt)
        text("reason", report.reason)
        text("code", report.code)
        text("message", report.message)
        if let pause = report.pause {
            writer.name("next_attempt_at")
            RFC3339.write(time.addingTimeInterval(pause.inSeconds), to: &writer)
        }
        if !report.detail.isEmpty {
            writer.name("detail")
            writer.object(report.detail)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Returns the event of a backend's notice.
    static func notice(_ notice: BackendNotice, backend: String, at time: Date) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        begin(&writer, "backend.notice", time)
        writer.field("backend", backend)
        writer.field("level", notice.level.rawValue)
        writer.field("name", notice.name)
        writer.field("device", notice.device)
        writer.field("message", notice.message)
        if !notice.detail.isEmpty {
            writer.name("detail")
            writer.object(notice.detail)
        }
        writer.endObject()
        return writer.bytes
    }
}

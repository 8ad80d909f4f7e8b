internal import Foundation
internal import Logging
internal import ChaparCore

extension DeliveryWorker {
    /// Gives up batches about which the backend reports nothing for `queue.lease`, until it is cancelled.
    ///
    /// A claim lasts as long as the process, so a backend that hangs would block its window for ever. Unreported
    /// messages count as sent without an answer, once; later reports are ignored.
    func giveUpHangingBatches() async {
        let limit = settings.queue.lease
        while !Task.isCancelled {
            let now = dependencies.time.steady
            let (hanging, earliest) = open.removeHanging(since: now.addingTimeInterval(-limit.inSeconds))
            for entry in hanging {
                giveUp(entry.batch)
                entry.sending.cancel()
            }
            let next = max((earliest ?? now).addingTimeInterval(limit.inSeconds), now.addingTimeInterval(0.001))
            try? await dependencies.time.sleep(until: next)
        }
    }

    private func giveUp(_ batch: WorkerBatch) {
        let unreported = batch.unreported(reason: "no_answer", isRepeatHarmful: backend.isRepeatHarmful)
        guard !unreported.isEmpty else { return }
        dependencies.logger.warning(
            "a backend reported nothing for queue.lease: its messages are given up",
            metadata: ["backend": "\(name)", "deliveries": .stringConvertible(unreported.count)]
        )
        finish(unreported, of: batch)
    }
}

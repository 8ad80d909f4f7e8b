internal import Foundation
internal import Logging
package import ChaparCore
internal import ChaparQueue

/// Adds the id of a receipt to the data of messages, where the app reports arrivals and openings.
///
/// A platform that takes separate content for each message gets one id for each delivery. A platform that takes one
/// content for many recipients gets one id for the notification, unless a request has one recipient.
struct ReceiptMarks: Sendable {
    let stamp: ReceiptStamp
    /// Whether the platform takes one content for many recipients in a request.
    let isShared: Bool

    /// Adds the ids.
    ///
    /// - Parameters:
    ///   - requests: The requests of a batch.
    ///   - claims: The delivery of each recipient, one request after the other.
    ///   - starts: The index of the first recipient of each request; on return, those of the returned requests.
    /// - Returns: The requests with ids, most of them for one recipient.
    func mark(_ requests: [PushRequest], of claims: [ClaimedDelivery], starts: inout [Int]) -> [PushRequest] {
        var marked: [PushRequest] = []
        marked.reserveCapacity(isShared ? requests.count : claims.count)
        var newStarts: [Int] = []
        newStarts.reserveCapacity(marked.capacity)
        for (request, start) in zip(requests, starts) {
            if isShared, request.recipients.count > 1 {
                newStarts.append(start)
                let number = claims[start].notificationID.rawValue
                marked.append(Self.request(request, stamp.id(of: .notification(number)), request.recipients))
                continue
            }
            for (place, recipient) in request.recipients.enumerated() {
                newStarts.append(start + place)
                marked.append(Self.request(request, stamp.id(of: .delivery(claims[start + place].id)), [recipient]))
            }
        }
        starts = newStarts
        return marked
    }

    private static func request(_ request: PushRequest, _ id: String, _ recipients: [Addressee]) -> PushRequest {
        var request = request
        request.recipients = recipients
        request.notification.data[PushNotification.receiptKey] = .string(id)
        return request
    }
}

extension DeliveryWorker {
    /// Returns the adder of the ids of receipts; nil when their key cannot be read: messages do not wait for it.
    func receiptMarks() async -> ReceiptMarks? {
        guard let keys = dependencies.receipts else { return nil }
        do throws(StoreError) {
            let stamp = try await keys.stamp(for: settings.app, at: dependencies.time.now)
            return ReceiptMarks(stamp: stamp, isShared: backend.batching.map { !$0.isMixed } ?? false)
        } catch {
            dependencies.logger.unlessCancelled?.warning(
                "messages go out without an id for receipts: its key cannot be read",
                metadata: ["backend": "\(name)", "error": "\(error)"]
            )
            return nil
        }
    }
}

extension PushNotification {
    /// The name in a message's data of the id with which the app reports its arrival and its opening.
    package static var receiptKey: String { "chapar_receipt" }

    /// Returns the notification as it is sent with such an id, for checks of its size.
    package var withReceiptSample: PushNotification {
        var sample = self
        sample.data[Self.receiptKey] = .string(String(repeating: "A", count: ReceiptKeys.length))
        return sample
    }
}

package import ChaparCore

extension DeliveryState {
    /// The number under which a state is stored; all waiting states are 0.
    package var code: Int64 {
        switch self {
        case .queued, .scheduled, .sending, .retrying: 0
        case .acceptedByPlatform: 1
        case .delivered: 2
        case .opened: 3
        case .failed: 4
        case .expired: 5
        case .cancelled: 6
        case .unknown: 7
        }
    }

    /// Makes the state of a delivery that is stored under a number and not claimed.
    package init(code: Int64, attempts: Int64, due: Int64, now: Int64) {
        self = DeliveryState(code: code) ?? (attempts > 0 ? .retrying : due > now ? .scheduled : .queued)
    }

    /// Makes the final state for a stored number; nil for a waiting one.
    package init?(code: Int64) {
        switch code {
        case 1: self = .acceptedByPlatform
        case 2: self = .delivered
        case 3: self = .opened
        case 4: self = .failed
        case 5: self = .expired
        case 6: self = .cancelled
        case 7: self = .unknown
        default: return nil
        }
    }
}

/// The hash by which deliveries with the same recipient and collapse id are found; equal hashes are compared in full.
package enum CollapseHash {
    package static func of(_ recipient: [UInt8], _ collapseID: String) -> Int64 {
        var hash = StableHash()
        hash.add(recipient)
        hash.addEnd()
        hash.add(collapseID.utf8)
        return Int64(bitPattern: hash.value)
    }
}

extension Recipient {
    /// Appends ``storedForm`` without making a string for a device token, which is by far the most frequent form.
    package func appendStoredForm(to bytes: inout [UInt8]) {
        guard case .token(let token) = self else {
            bytes.append(contentsOf: storedForm.utf8)
            return
        }
        bytes.append(contentsOf: token.service.rawValue.utf8)
        bytes.append(UInt8(ascii: ":"))
        bytes.append(contentsOf: token.value.utf8)
    }
}

extension Duration {
    /// The whole milliseconds, limited to between 0 and a hundred years, so that sums with times of day cannot
    /// overflow.
    package var boundedMilliseconds: Int64 { min(max(self, .zero), .seconds(3_155_760_000)).inMilliseconds }
}

/// The hash by which the owner of a token is found.
package enum TokenHash {
    /// Returns the FNV-1a hash of 64 bits; it is stored, so it must be the same in every process.
    package static func of(_ service: String, _ token: String) -> Int64 {
        CollapseHash.of(Array(service.utf8), token)
    }
}

extension ReceiptAddress {
    /// The hash of the backend's name and the platform's id, by which the delivery is found.
    package var messageHash: Int64 { Int64(bitPattern: StableHash.of(backend + "\u{0}" + platformID)) }

    /// The hash of the device token, 0 without one.
    package var tokenHash: Int64 { token.map { Int64(bitPattern: StableHash.of($0)) } ?? 0 }
}

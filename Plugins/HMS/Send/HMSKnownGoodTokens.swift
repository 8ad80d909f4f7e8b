import Foundation
import Synchronization

/// The newest tokens that Huawei accepted a message for, at most four.
///
/// When Huawei refuses all tokens of a request, a check of one of these shows whether the tokens are dead or the app or
/// project is wrong.
final class HMSKnownGoodTokens: Sendable {
    private static let life: TimeInterval = 86_400
    private let last = Mutex<[(token: String, at: Date)]>([])

    /// Records a token that was accepted.
    func add(_ token: String, at now: Date) {
        last.withLock { last in
            last.removeAll { $0.token == token }
            last.append((token, now))
            if last.count > 4 { last.removeFirst() }
        }
    }

    /// Returns the newest token that was accepted within the last day.
    func token(at now: Date) -> String? {
        last.withLock { $0.last { now.timeIntervalSince($0.at) < Self.life }?.token }
    }

    /// Forgets a token that Huawei does not accept any more.
    func forget(_ token: String) { last.withLock { $0.removeAll { $0.token == token } } }
}

import ChaparCore
import Synchronization

/// The share of the window that may be under way: halved when Huawei limits the flow, raised by steps while messages
/// are accepted.
///
/// Huawei does not publish an app's quota of devices per second; it can only be found by trying.
final class HMSFlowControl: Sendable {
    private struct State {
        var share = 1.0
        var inARow = 0
        var last: ContinuousClock.Instant?
    }

    /// The longest pause after a first refusal that names none.
    static let firstPause = Duration.seconds(10)
    /// The share of the window that an accepted request restores.
    private static let step = 0.02
    private static let least = 1.0 / 64
    private let state = Mutex(State())
    private let random: @Sendable () -> Double

    init(random: @escaping @Sendable () -> Double = { .random(in: 0...1) }) { self.random = random }

    /// The share of the window in use now, above 0 and at most 1.
    var share: Double { state.withLock { $0.share } }

    /// Records a refusal for the flow, and returns the pause: the server's, or 10 s doubled each time with jitter, at
    /// most 5 minutes.
    func throttled(floor: Duration?) -> Duration {
        let inARow = state.withLock { state in
            // Requests that were sent together are refused together, which counts as one refusal.
            let now = ContinuousClock.now
            if let last = state.last, now < last + .seconds(1) { return max(1, state.inARow) }
            state.last = now
            state.share = max(Self.least, state.share / 2)
            state.inARow += 1
            return state.inARow
        }
        if let floor { return floor }
        let bound = min(300.0, Self.firstPause.inSeconds * Double(1 << min(inARow - 1, 5)))
        return .milliseconds(clamping: bound * (0.5 + 0.5 * random()) * 1000)
    }

    /// Records that a request was accepted.
    func accepted() {
        state.withLock { state in
            state.inARow = 0
            state.share = min(1, state.share + Self.step)
        }
    }
}

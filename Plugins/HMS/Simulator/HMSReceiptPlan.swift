/// The target of an HMS simulator's receipts, and their peculiarities.
public struct HMSReceiptPlan: Sendable, Hashable {
    /// The form of a status.
    @nonexhaustive
    public enum Form: String, Sendable, CaseIterable {
        /// With `deliveryStatus`.
        case new
        /// With `status` and `timestamp` at the top level.
        case old
    }

    /// The kind of signature.
    @nonexhaustive
    public enum Signature: String, Sendable, CaseIterable {
        /// A correct one.
        case right
        /// Made with another secret.
        case wrong
        /// Correct, but an hour old.
        case old
        /// None.
        case missing
    }

    /// The address of the callback, `http://host:port/path`; nil sends none.
    public var url: String?
    /// The statuses of single tokens; all others, except magic ones, get 0.
    public var statuses: [String: Int] = [:]
    /// The delay between a message and its receipt.
    public var delay: Duration = .milliseconds(20)
    /// The form of a status.
    public var form = Form.new
    /// The kind of signature.
    public var signature = Signature.right
    /// Whether every callback is sent a second time.
    public var isDoubled = false
    /// Whether the statuses of a callback come in the reverse order.
    public var isReversed = false
    /// The most statuses in a callback, at most 100.
    public var perCall = 100
    /// The most attempts of a callback that is not answered with 200.
    public var attempts = 3
    /// The pause before the next attempt.
    public var retryPause: Duration = .milliseconds(200)

    /// Makes a plan without peculiarities.
    public init(url: String? = nil) { self.url = url }
}

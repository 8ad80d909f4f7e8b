/// Where an HMS simulator sends its receipts, and what is odd about them.
public struct HMSReceiptPlan: Sendable, Hashable {
    /// In which form a status is written.
    @nonexhaustive
    public enum Form: String, Sendable, CaseIterable {
        /// With `deliveryStatus`.
        case new
        /// Flat.
        case old
    }

    /// What the signature is like.
    @nonexhaustive
    public enum Signature: String, Sendable, CaseIterable {
        /// As it should be.
        case right
        /// Of another secret.
        case wrong
        /// Right, and an hour old.
        case old
        /// There is none.
        case missing
    }

    /// The address that is called back, `http://host:port/path`; nil sends none.
    public var url: String?
    /// The statuses of single tokens; all others, but for magic ones, get 0.
    public var statuses: [String: Int] = [:]
    /// How long after the message a receipt goes out.
    public var delay: Duration = .milliseconds(20)
    /// In which form a status is written.
    public var form = Form.new
    /// What the signature is like.
    public var signature = Signature.right
    /// Whether every callback is sent a second time.
    public var isDoubled = false
    /// Whether the statuses of a callback come in the reverse order.
    public var isReversed = false
    /// The most statuses in a callback, at most 100.
    public var perCall = 100
    /// How often a callback is tried that is not answered with 200.
    public var attempts = 3
    /// The pause before the next try.
    public var retryPause: Duration = .milliseconds(200)

    /// Sends none.
    public init(url: String? = nil) { self.url = url }
}

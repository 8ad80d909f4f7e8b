/// The attempts of a delivery, in the form that stores keep: JSON objects, separated by commas.
public enum AttemptLog {
    /// The field of an attempt with the seconds that the platform asked to wait before the next one.
    public static let platformWait: StaticString = "platform_wait"

    private static let beginning = Array(#"{"at":""#.utf8)
    private static let wait = Array(#","\#(platformWait)":"#.utf8)

    /// Whether the platform asked for a wait after the last attempt.
    ///
    /// It searches the bytes only: inside a JSON string, quotation marks would have backslashes before them.
    ///
    /// - Parameter log: The attempts of a delivery.
    /// - Returns: True for a wait that only the platform may shorten.
    public static func asksToWait(_ log: [UInt8]) -> Bool {
        guard let asked = log.lastPlace(of: wait) else { return false }
        return asked > log.lastPlace(of: beginning) ?? -1
    }
}

extension [UInt8] {
    /// Returns the beginning of the last occurrence of a sequence.
    fileprivate func lastPlace(of sequence: [UInt8]) -> Int? {
        guard count >= sequence.count else { return nil }
        return (0...count - sequence.count).last { self[$0...].starts(with: sequence) }
    }
}

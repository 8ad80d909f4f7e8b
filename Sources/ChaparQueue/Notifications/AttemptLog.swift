/// The attempts of a delivery, in the form that stores keep: JSON objects, separated by commas.
public enum AttemptLog {
    /// The field of an attempt with the seconds that the platform asked to wait before the next one.
    public static let platformWait: StaticString = "platform_wait"

    private static let beginning = Array(#"{"at":""#.utf8)
    private static let wait = Array(#","\#(platformWait)":"#.utf8)
    private static let acceptance = Array(#""outcome":"accepted""#.utf8)
    private static let answers = ["refused", "unknown"].map { Array(#""outcome":"\#($0)""#.utf8) }
    private static let laterFailure = Array(#""state":"failed""#.utf8)

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

    /// Whether a platform took the message in one of the attempts, and no platform has reported a failure since.
    ///
    /// For a delivery that has not ended it is true only if the delivery waits, or waited, for a report before other
    /// backends take over (``ChaparComposition/Escalation``). It searches the bytes, as ``asksToWait(_:)`` does.
    package static func isAccepted(_ log: [UInt8]) -> Bool {
        guard let accepted = log.lastPlace(of: acceptance) else { return false }
        return accepted > log.lastPlace(of: laterFailure) ?? -1
    }

    /// Whether the last attempt was an acceptance: no other backend has taken over yet.
    package static func awaitsReport(_ log: [UInt8]) -> Bool {
        guard let accepted = log.lastPlace(of: acceptance) else { return false }
        return answers.allSatisfy { log.lastPlace(of: $0) ?? -1 < accepted }
    }

    /// Whether an operator's retry leaves the delivery's time as it is.
    package static func keepsItsTime(_ log: [UInt8]) -> Bool { asksToWait(log) || awaitsReport(log) }

    /// Whether a backend has made an attempt.
    package static func names(_ backend: String, _ log: [UInt8]) -> Bool {
        log.lastPlace(of: Array(#","backend":"\#(backend)""#.utf8)) != nil
    }
}

extension [UInt8] {
    /// Returns the beginning of the last occurrence of a sequence.
    fileprivate func lastPlace(of sequence: [UInt8]) -> Int? {
        guard count >= sequence.count else { return nil }
        return (0...count - sequence.count).last { self[$0...].starts(with: sequence) }
    }
}

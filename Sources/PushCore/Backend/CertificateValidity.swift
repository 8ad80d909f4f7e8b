package import Foundation

extension Diagnosis {
    /// How a certificate stands with its dates: the finding `certificate` of backends and of the gateway's own listener.
    ///
    /// - Parameters:
    ///   - name: What begins the sentence: `The client certificate`.
    ///   - notBefore: From when on it is valid; nil when that was not read.
    ///   - notAfter: When it ends. A warning begins ``BackendHealth/credentialWarningDays`` before.
    ///   - now: The time.
    ///   - renew: How it is renewed.
    /// - Returns: The finding, with `renew` as its fix when it ended or is about to.
    package static func certificate(
        _ name: String,
        notBefore: Date? = nil,
        notAfter: Date,
        at now: Date,
        renew: String
    ) -> Diagnosis {
        let until = RFC3339.string(notAfter).prefix(10)
        if now >= notAfter {
            return Diagnosis("certificate", .failure, "\(name) expired on \(until).", fix: renew)
        }
        if let notBefore, now < notBefore {
            let finding = "\(name) is valid from \(RFC3339.string(notBefore)) only."
            return Diagnosis("certificate", .failure, finding, fix: "Check this machine's clock.")
        }
        let days = Int(clamping: notAfter.timeIntervalSince(now) / 86400)
        if days < BackendHealth.credentialWarningDays {
            return Diagnosis("certificate", .warning, "\(name) ends in \(days) days, on \(until).", fix: renew)
        }
        return Diagnosis("certificate", .ok, "\(name) is valid until \(until).")
    }
}

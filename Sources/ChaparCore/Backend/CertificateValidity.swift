package import Foundation

extension Diagnosis {
    /// Checks a certificate's dates: the finding `certificate` of backends and of the gateway's own listener.
    ///
    /// - Parameters:
    ///   - name: The beginning of the sentence: `The client certificate`.
    ///   - notBefore: The start of its validity; nil when that was not read.
    ///   - notAfter: Its expiry. A warning begins ``BackendHealth/credentialWarningDays`` before.
    ///   - now: The time.
    ///   - renew: How it is renewed.
    /// - Returns: The finding, with `renew` as its fix when the certificate has expired or is about to.
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

extension Refusal {
    /// Returns the refusal of messages under a certificate that has expired or is not valid yet; nil while it is valid.
    ///
    /// An expired certificate is no error of the configuration, which was right on the day it was written. So reading
    /// one never checks dates: `chapar check` warns, `chapar doctor` fails, and the gateway parks this one backend
    /// (``PushBackend/credentialProblem(at:)``) until another certificate or the clock corrects it.
    ///
    /// - Parameters:
    ///   - name: The beginning of the sentence: `The client certificate`.
    ///   - notBefore: The start of its validity.
    ///   - notAfter: Its expiry.
    ///   - now: The time.
    ///   - renew: How it is renewed.
    /// - Returns: The refusal of a message that would be sent with the certificate, with the fix.
    package static func outOfDate(
        _ name: String,
        notBefore: Date,
        notAfter: Date,
        at now: Date,
        renew: String
    ) -> Refusal? {
        guard now >= notAfter || now < notBefore else { return nil }
        let finding = Diagnosis.certificate(name, notBefore: notBefore, notAfter: notAfter, at: now, renew: renew)
        return Refusal(
            .account,
            reason: now >= notAfter ? "certificate_expired" : "certificate_not_yet_valid",
            detail: finding.fix.map { "\(finding.finding) \($0)" } ?? finding.finding,
            advice: .parkBackend
        )
    }
}

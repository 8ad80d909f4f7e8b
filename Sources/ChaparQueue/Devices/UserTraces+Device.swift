internal import ChaparCore

extension UserTraces {
    /// Adds a device with its tokens.
    public mutating func add(_ device: Device) {
        devices.insert(device.id)
        recipients.insert(Recipient.device(device.id).storedForm)
        for token in device.tokens { recipients.insert(Recipient.token(token.token).storedForm) }
    }
}

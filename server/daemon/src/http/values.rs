//! The types that JSON is parsed into: whole numbers, within the range that every language counts exactly, and objects.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use tollgate_kernel::{Cost, EXACT, Timestamp};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An integer from 0 to 2^53 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WholeNumber(u64);

impl WholeNumber {
    pub(super) fn cost(self) -> Cost {
        // The number is below the bound of a cost.
        Cost::new(self.0).unwrap_or(Cost::ONE)
    }

    pub(super) fn timestamp(self) -> Timestamp {
        Timestamp::saturating(self.0)
    }
}

struct WholeNumberVisitor;

impl Visitor<'_> for WholeNumberVisitor {
    type Value = WholeNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an integer from 0 to {}", EXACT - 1)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<WholeNumber, E> {
        if number < EXACT {
            Ok(WholeNumber(number))
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }

    /// In JSON, `5.0` is an integer too.
    fn visit_f64<E: Error>(self, number: f64) -> Result<WholeNumber, E> {
        if number.fract() == 0.0 && (0.0..EXACT as f64).contains(&number) {
            return Ok(WholeNumber(number as u64));
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<WholeNumber, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(WholeNumberVisitor)
    }
}

impl PartialSchema for WholeNumber {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .maximum(Some(EXACT - 1));
        number.into()
    }
}

impl ToSchema for WholeNumber {}

/// A value that is written as an object. The type by itself would also be parsed from a list of its fields.
#[derive(Debug)]
pub(super) struct JsonObject<T>(pub(super) T);

struct JsonObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for JsonObjectVisitor<T> {
    type Value = JsonObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<JsonObject<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(JsonObject)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(JsonObjectVisitor(PhantomData))
    }
}

/// Parses a field that may be left out, but must not be null.
pub(super) fn non_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

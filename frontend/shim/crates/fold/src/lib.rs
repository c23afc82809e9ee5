//! The folding engine: records in, records with TEMPLATE and REPEAT out.
#![allow(dead_code)]
mod layout;

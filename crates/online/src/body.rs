//! One transaction of a batch as bytes, names included, for the store.

use crate::batch::Op;
use crate::codec::{In, Out};
use crate::{Batch, Cell, Head, Key128, Origin, Shape, StoreError};
use anomalist_history::{OpKind, Outcome, SnapshotSet, Stamps};

impl Out {
    pub fn set(&mut self, set: &SnapshotSet) {
        let set = set.view();
        self.u64(set.xmin);
        self.u64(set.xmax);
        self.usize(set.running.len());
        set.running.iter().for_each(|&id| self.u64(id));
    }

    /// A transaction of unknown outcome.
    pub fn body(&mut self, batch: &Batch, i: usize) {
        let (head, ops) = &batch.heads[i];
        let ops = &batch.ops[ops.start as usize..ops.end as usize];
        self.datum(head.session);
        self.option(head.id, Out::datum);
        self.stamp(head.stamps.start);
        self.stamp(head.stamps.commit);
        self.option(head.set_id, Out::u64);
        self.option(head.set.as_deref(), Out::set);
        self.u64(head.origin.source.into());
        self.u64(head.origin.line);
        self.usize(ops.len());
        let mut named: Vec<Key128> = vec![head.session];
        named.extend(head.id);
        for op in ops {
            self.0.push(match op.kind {
                OpKind::Read => 0,
                OpKind::Write => 1,
                OpKind::Append => 2,
            });
            self.datum(op.key);
            self.0.push(match op.cell {
                Cell::Unknown => 0,
                Cell::One(_) => 1,
                Cell::List(..) => 2,
            });
            self.data(batch.values(&op.cell));
            named.push(op.key);
            named.extend(batch.values(&op.cell));
        }
        named.retain(|name| name.shape() == Shape::Text);
        named.sort_unstable();
        named.dedup();
        let texts: Vec<_> = named.iter().filter_map(|name| Some((name, batch.texts.get(name)?))).collect();
        self.usize(texts.len());
        for (name, text) in texts {
            self.datum(*name);
            self.text(text);
        }
    }
}

impl In<'_> {
    pub fn set(&mut self) -> Result<Box<SnapshotSet>, StoreError> {
        let (xmin, xmax) = (self.u64()?, self.u64()?);
        let set = SnapshotSet::new(xmin, xmax, self.many(In::u64)?);
        set.map(Box::new).map_err(|_| StoreError::Damaged("no snapshot".to_owned()))
    }

    /// What [`Out::body`] wrote, as a batch.
    pub fn body(&mut self) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        let damaged = || StoreError::Damaged("no operation".to_owned());
        let head = Head {
            session: self.datum()?,
            id: self.option(In::datum)?,
            outcome: Outcome::Indeterminate,
            stamps: Stamps { start: self.stamp()?, commit: self.stamp()? },
            number: None,
            set_id: self.option(In::u64)?,
            set: self.option(In::set)?,
            origin: Origin { source: self.u32()?, line: self.u64()? },
        };
        for _ in 0..self.count()? {
            let kind = match self.byte()? {
                0 => OpKind::Read,
                1 => OpKind::Write,
                2 => OpKind::Append,
                _ => return Err(damaged()),
            };
            let key = self.datum()?;
            let (shape, values) = (self.byte()?, self.data()?);
            let cell = match (shape, &*values) {
                (0, []) => Cell::Unknown,
                (1, [value]) => Cell::One(*value),
                (2, values) => batch.list(values.iter().copied()),
                _ => return Err(damaged()),
            };
            batch.ops.push(Op { kind, key, cell });
        }
        for _ in 0..self.count()? {
            let name = self.datum()?;
            batch.text(name, &self.text()?);
        }
        batch.transaction(head);
        Ok(batch)
    }
}
